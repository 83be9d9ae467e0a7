"""``mqredis console``: the web console.

``cli.app`` adds the command. ``console.serve`` runs the console; it lets everybody in when there is no token, so the
check of ``is_loopback`` is the only one. Names of managers become parts of addresses: ``console.managers`` refuses
other characters, ``settings.manager`` included. A manager of ``--also`` is a URL: its other settings, its name in the
broker among them, come from the environment, and ``--manager`` is not for it. docs/console.md and docs/cli.md name the
options and the port. ``console.application`` checks the length of the token, and the interval.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys

from mqredis.cli.common import Arguments, Subparsers, command, given_settings
from mqredis.cli.output import Output
from mqredis.cli.values import port
from mqredis.errors import InvalidArgument
from mqredis.settings import Settings

# Environment variable for the token. It is safer than --token, which ``ps`` shows.
TOKEN_VARIABLE = "MQREDIS_CONSOLE_TOKEN"  # noqa: S105 - the name of a variable
ALSO_VARIABLE = "MQREDIS_CONSOLE_ALSO"


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    console = command(subparsers, "console", "serve the web console", _console)
    console.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    console.add_argument(
        "--port", type=port, default=8650, help="port to listen on; 0: any free one (default: 8650)"
    )
    console.add_argument(
        "--token",
        help="token that visitors must enter; required unless --host is a loopback address; "
        f"better given in {TOKEN_VARIABLE}",
    )
    console.add_argument(
        "--root-path",
        default="",
        metavar="PATH",
        help="the path under which a proxy shows the console, and which it removes from requests, such as /queues",
    )
    console.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="NAME=URL",
        help="show one more queue manager under this name; may be repeated; those with a password are better given in "
        f"{ALSO_VARIABLE}, with spaces between them",
    )
    console.add_argument("--hide-bodies", action="store_true", help="hide a body until it is asked for")
    console.add_argument(
        "--interval",
        type=float,
        default=2.0,
        metavar="SECONDS",
        help="seconds between live updates (default: 2)",
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _managers(arguments: Arguments, settings: Settings) -> dict[str, Settings | str]:
    managers: dict[str, Settings | str] = {settings.manager: settings}
    for pair in [*arguments.also, *os.environ.get(ALSO_VARIABLE, "").split()]:
        name, _, url = pair.partition("=")
        if not name or not url or "://" in name:  # the text is not shown: a URL may hold a password
            raise InvalidArgument(
                f"--also and {ALSO_VARIABLE} take NAME=URL, a name and the address of its server"
            )
        if name in managers:
            raise InvalidArgument(f"--also {name!r:.60}: there is a queue manager of this name already")
        managers[name] = url
    return managers


def _console(arguments: Arguments, output: Output) -> None:
    from mqredis.console import serve

    token = arguments.token or os.environ.get(TOKEN_VARIABLE) or None
    if token is None and not is_loopback(arguments.host):
        raise InvalidArgument(
            f"--host {arguments.host} lets other machines connect: give a token (--token or {TOKEN_VARIABLE}), or "
            "mount mqredis.console.app(access=...) in an application that knows its users"
        )

    if not re.fullmatch(r"(/[\w.~-]+)*", arguments.root_path, re.ASCII):
        raise InvalidArgument(
            f"--root-path {arguments.root_path!r:.60} is not a path such as /queues, without a slash at its end"
        )

    def ready(url: str) -> None:
        output.line(f"console: {url}", url=url)
        sys.stdout.flush()

    settings = given_settings(arguments)
    serve.run(
        _managers(arguments, settings),
        arguments.host,
        arguments.port,
        token,
        ready,
        root_path=arguments.root_path,
        read_only=settings.read_only,
        hide_bodies=arguments.hide_bodies,
        interval=arguments.interval,
    )
