"""Users with the rights that ``mqredis acl`` prints, on a real server."""

from __future__ import annotations

from mqredis import Settings, scripts
from mqredis.cli import acl
from mqredis.drivers import deploy
from tests.support.server import RedisServer, server_version

# Options of ``mqredis acl`` for the server of the tests.
SERVER_OPTIONS = {"functions": server_version() >= (7,)}


def login(server: RedisServer, role: str, manager: str = "shop", database: int = 0, **how: bool) -> str:
    """Create the user with the printed command. Return the URL with its credentials."""
    command = acl.line(role, manager, database, **(SERVER_OPTIONS | how)).split()
    with server.client() as raw:
        raw.execute_command(*command)
    name, password = command[2], command[4][1:]
    where = server.tcp_url.replace("redis://", f"redis://{name}:{password}@")
    return where.removesuffix("/0") + f"/{database}"


def deployed(server: RedisServer, **how: bool) -> None:
    """Load the scripts as the role deploy."""
    (done,) = deploy.load(login(server, "deploy"), Settings(), **(SERVER_OPTIONS | how))
    assert done.count == len(scripts.names())
