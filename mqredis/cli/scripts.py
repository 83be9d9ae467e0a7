"""``mqredis scripts load | check | clean``: the deploy step for users who may not load scripts.

``cli.app`` adds these commands; ``admin`` takes ``functions_option`` from here, since users of ``acl`` have to call
what ``load`` has loaded. The commands use ``drivers.deploy`` and open no queue manager, because the role ``deploy`` may
touch no key. ``check`` ends with 1 if something is missing; deploy steps rely on it (docs/production.md).
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from mqredis.cli.common import Arguments, Subparsers, command, given_settings
from mqredis.cli.exits import Exit
from mqredis.cli.output import Output
from mqredis.drivers import deploy
from mqredis.errors import AccessDenied
from mqredis.operations.context import prepared
from mqredis.settings import Settings


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    scripts = subparsers.add_parser("scripts", help="load the scripts of this release into the server")
    inner = scripts.add_subparsers(metavar="ACTION", required=True, dest="action")
    load = command(inner, "load", "load every script, for users who may not load any", _load)
    check = command(inner, "check", "tell which scripts the server lacks", _check)
    for parser in (load, check):
        functions_option(parser)
    command(
        inner,
        "clean",
        "delete the functions of other releases, once none of their clients runs any more",
        _clean,
    )


def functions_option(parser: argparse.ArgumentParser) -> None:
    """``--no-functions``, which ``acl`` has, too."""
    parser.add_argument(
        "--functions",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="the scripts are functions of the server, which Redis has since 7.0 (default: yes)",
    )


def _where(arguments: Arguments, *, changes: bool = True) -> tuple[Any, Settings]:
    """Address and settings from the options and variables. Raises AccessDenied for a change by a read-only client."""
    settings, where = prepared(None, None, given_settings(arguments))
    if changes and settings.read_only:
        raise AccessDenied(
            "this client is read-only (Settings.read_only), so it changes no scripts of the server"
        )
    return where, settings


def _load(arguments: Arguments, output: Output) -> None:
    for done in deploy.load(*_where(arguments), functions=arguments.functions):
        output.line(f"{done.server}: {done.count} loaded as {done.kind}", **asdict(done))
        if done.kind == "scripts":
            output.notice("The server forgets scripts when it restarts: load them again then.")


def _check(arguments: Arguments, output: Output) -> Exit:
    complete = True
    for found in deploy.check(*_where(arguments, changes=False), functions=arguments.functions):
        missing = f"; missing: {', '.join(found.missing)}" if found.missing else ""
        output.line(f"{found.server}: {found.count} there as {found.kind}{missing}", **asdict(found))
        complete = complete and not found.missing
    return Exit.DONE if complete else Exit.REFUSED


def _clean(arguments: Arguments, output: Output) -> None:
    for done in deploy.clean(*_where(arguments)):
        text = f"{done.count} {'library' if done.count == 1 else 'libraries'} of other releases"
        output.line(f"{done.server}: deleted {text}", **asdict(done))
