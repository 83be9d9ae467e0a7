"""Serves the console by itself.

``mqredis console`` calls it (``cli.console``). tests/console/test_security.py uses ``local``.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from typing import Any

import uvicorn
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp

from mqredis.console.access import everyone
from mqredis.console.application import app
from mqredis.console.managers import Where


def local(managers: Mapping[str, Where], **options: Any) -> ASGIApp:
    """The console for the people of this machine, without a token.

    A page of another site could let its own name lead to 127.0.0.1, so requests have to name this machine.
    """
    console = app(managers, access=everyone, **options)
    console.add_middleware(
        TrustedHostMiddleware, allowed_hosts=["localhost", "127.0.0.1", "[::1]"], www_redirect=False
    )
    return console


def run(
    managers: Mapping[str, Where],
    host: str,
    port: int,
    token: str | None,
    ready: Callable[[str], None],
    *,
    root_path: str = "",
    **options: Any,
) -> None:
    """Serve until SIGINT, or until SIGTERM if its handler raises KeyboardInterrupt. ``ready`` gets the URL.

    Raises OSError if the port is taken.
    ``token`` None: everybody who can connect is let in, so ``cli.console`` allows it for a loopback ``host`` only.
    ``root_path``: what a proxy in front removes from the path of each request, and so stands before all links.
    uvicorn's default ``proxy_headers`` takes the client's address from X-Forwarded-For of proxies on this machine, and
    wrong tokens are counted by that address (docs/console.md).
    """
    application = local(managers, **options) if token is None else app(managers, token=token, **options)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        contextlib.suppress(KeyboardInterrupt),
        socket.create_server((host, port), family=family) as listener,
    ):
        # Connections inherit it. asyncio sets it only where the protocol of the socket is named, and without it a page
        # waits 40 ms for the acknowledgement of its headers.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = f"[{host}]" if family == socket.AF_INET6 else host
        ready(f"http://{name}:{listener.getsockname()[1]}/")
        config = uvicorn.Config(
            application,
            root_path=root_path,
            log_level="warning",
            timeout_graceful_shutdown=1,
            server_header=False,
        )
        uvicorn.Server(config).run(sockets=[listener])
