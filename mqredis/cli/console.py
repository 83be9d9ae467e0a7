"""``mqredis console``: the web console."""

from __future__ import annotations

import ipaddress
import os

from mqredis.cli.common import Arguments, Output, Subparsers, command
from mqredis.cli.exits import Exit
from mqredis.errors import InvalidArgument
from mqredis.settings import Settings

#: Where the token is better kept: ps shows the options of a process.
TOKEN = "MQREDIS_CONSOLE_TOKEN"  # noqa: S105 - the name of a variable


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    console = command(subparsers, "console", "serve the web console", _console)
    console.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    console.add_argument("--port", type=int, default=8650, help="0: any that is free (default: 8650)")
    console.add_argument(
        "--token",
        help=f"visitors have to give it once; needed where others can connect; better kept in {TOKEN}",
    )
    console.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="NAME=URL",
        help="show one more queue manager under this name; may be repeated",
    )
    console.add_argument("--read-only", action="store_true", help="no visitor may change anything")
    console.add_argument("--hide-bodies", action="store_true", help="show a body only when it is asked for")
    console.add_argument(
        "--interval", type=float, default=2.0, metavar="SECONDS", help="between two live updates (default: 2)"
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _managers(arguments: Arguments) -> dict[str, Settings | str]:
    where = {name: getattr(arguments, name) for name in ("url", "manager") if getattr(arguments, name, None)}
    settings = Settings.from_env(**where)
    found: dict[str, Settings | str] = {settings.manager: settings}
    for pair in arguments.also:
        name, sign, url = pair.partition("=")
        if not sign or name in found:
            raise InvalidArgument(f"--also {pair!r:.60} is not NAME=URL with a new name")
        found[name] = url
    return found


def _console(arguments: Arguments, output: Output) -> Exit:
    from mqredis.console import serve

    token = arguments.token or os.environ.get(TOKEN) or None
    if token is None and not is_loopback(arguments.host):
        raise InvalidArgument(
            f"--host {arguments.host} lets other machines connect: give a token (--token or {TOKEN}), or mount "
            "mqredis.console.app(access=...) in an application that knows its users"
        )

    def ready(url: str) -> None:
        output.line(f"console: {url}", url=url)
        print(end="", flush=True)

    serve.run(
        _managers(arguments),
        arguments.host,
        arguments.port,
        token,
        ready,
        read_only=arguments.read_only,
        hide_bodies=arguments.hide_bodies,
        interval=arguments.interval,
    )
    return Exit.DONE
