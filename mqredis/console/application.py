"""The ASGI application.

``mqredis.console`` exports it for mounting, and ``serve`` runs it. ``failure`` and tests find the ``Console`` at
``state.console``.

``visit`` repeats the form of the addresses (``/m/NAME/...``), which users have in bookmarks. Every route but /login and
/static is ``admitted``. A mounted application gets no lifespan event: then nothing is checked at the start, and only
the owner closes connections (docs/console.md). docs/console.md has the 12 hours and the 16 characters, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from mqredis.console import pages
from mqredis.console.access import Access
from mqredis.console.failure import HANDLERS
from mqredis.console.managers import Managers, Where
from mqredis.console.pages import entry
from mqredis.console.security import SecurityHeaders, Signer
from mqredis.console.shared import Console
from mqredis.console.visit import Endpoint, admitted
from mqredis.errors import InvalidArgument

# Shorter tokens are refused: they could be guessed.
MIN_TOKEN = 16


def app(
    managers: Where | Mapping[str, Where] | None = None,
    *,
    access: Access | None = None,
    token: str | None = None,
    read_only: bool = False,
    hide_bodies: bool = False,
    secret: bytes | None = None,
    interval: float = 2.0,
) -> Starlette:
    """The console as an ASGI application, to be mounted under any prefix or served by itself.

    ``managers``: an asyncio ``QueueManager`` that is open, a URL, ``Settings``, or a mapping from names to these; None:
    what ``MQREDIS_URL`` and the other variables name. The console connects to a URL or to settings at their first use.
    When it is served by itself, it tries all of them at its start, and logs a warning for each that cannot be shown.

    Exactly one of ``access`` and ``token`` says who may use it. ``access`` is called with each request and returns a
    ``Visitor`` or None; it may be a coroutine function. ``token`` (at least 16 characters) is asked for once in each
    browser, and a signed cookie remembers it for 12 hours.

    ``read_only``: no visitor may act, and managers that the console opens get ``Settings(read_only=True)``.
    ``hide_bodies``: a body is shown when a visitor with the right "bodies" asks. ``secret``: the key for cookies and
    forms, which several processes behind one address have to share; None: derived from the token, else random.
    ``interval``: seconds between two readings of a queue manager that is being looked at.

    Raises InvalidArgument.
    """
    if (access is None) == (token is None):
        raise InvalidArgument(
            "say who may use the console: give access= (mqredis.console.everyone lets every visitor in) or token="
        )
    if access is not None and not callable(access):
        raise InvalidArgument("access must be a function of the request, which returns a Visitor or None")
    if token is not None and len(token) < MIN_TOKEN:
        raise InvalidArgument(f"the token has {len(token)} characters; at least {MIN_TOKEN} are needed")
    if not interval >= 0.1:  # nan, too
        raise InvalidArgument("interval must be at least 0.1 seconds")
    if secret is None:
        secret = (
            hashlib.sha256(b"mqredis console " + token.encode()).digest()
            if token
            else secrets.token_bytes(32)
        )
    console = Console(
        Managers(managers, read_only),
        Signer(secret),
        access,
        token or "",
        read_only,
        hide_bodies,
        interval,
        pages.navigation(read_only),
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        checking = asyncio.create_task(console.managers.check())
        yield
        checking.cancel()
        with suppress(asyncio.CancelledError):
            await checking
        await console.managers.close()

    application = Starlette(
        routes=_routes(console),
        middleware=[Middleware(SecurityHeaders)],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
    )
    application.state.console = console
    return application


class Static(StaticFiles):
    """The style sheet, the scripts and the icon. A browser keeps them for an hour."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        """The response for one file."""
        response = super().file_response(*args, **options)
        response.headers["cache-control"] = "max-age=3600"
        return response


def _routes(console: Console) -> list[Route | Mount]:
    def get(path: str, endpoint: Endpoint) -> Route:
        return Route(path, admitted(console, endpoint), methods=["GET"])

    def post(path: str, endpoint: Endpoint) -> Route:
        return Route(path, admitted(console, endpoint), methods=["POST"])

    login: Callable[[Request], Awaitable[Response]] = partial(entry.login, console)
    return [
        get("/", entry.start),
        Route("/login", login, methods=["POST"]),
        post("/logout", entry.logout),
        post("/theme", entry.theme),
        *(get("/m/{manager}" + path, endpoint) for path, endpoint in pages.PAGES.items()),
        post("/m/{manager}" + pages.DOCTOR, pages.PAGES[pages.DOCTOR]),
        get("/m/{manager}/act/{action}", pages.CONFIRM),
        post("/m/{manager}/act/{action}", pages.CARRY_OUT),
        Mount("/static", Static(directory=Path(__file__).with_name("static"))),
    ]
