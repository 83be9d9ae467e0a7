"""One request to the console: who makes it, and how it is answered.

``admitted``, which ``application`` puts in front of every endpoint but ``/login`` and ``/static``, makes a ``Visit``
for each request whose visitor is known; others get ``login_page``, as from ``pages.entry.login``. Pages take it, and
the templates use its attributes. A reading belongs to an address (``here``) and is shared by all visitors, so ``Read``
gets no ``Visit``. An empty argument is left out of addresses, so "" and a missing one have to mean the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mqredis import __version__
from mqredis.asyncio import QueueManager
from mqredis.console.access import Visitor
from mqredis.console.actions import REGISTRY
from mqredis.console.rendering import TEMPLATES, theme_of
from mqredis.console.security import (
    COOKIE_SECONDS,
    Cookie,
    Forbidden,
    Notice,
    check_origin,
    read_form,
    set_cookie,
)
from mqredis.console.shared import Console

S = TypeVar("S")
# Reads what a page shows: of a console, a queue manager and the arguments of the address. The last argument is what it
# has read before, or None.
Read = Callable[[Console, str, dict[str, str], S | None], Awaitable[S]]


class Visit:
    """One request of a visitor."""

    def __init__(self, console: Console, request: Request, visitor: Visitor, cookie: Cookie) -> None:
        self.console = console
        self.request = request
        self.visitor = visitor
        self.cookie = cookie
        self.name = str(request.path_params.get("manager", console.managers.names[0]))
        self._form: dict[str, str] | None = None
        # What came of the action that led to this page.
        self.notice: Notice | None = None

    @cached_property
    def query(self) -> dict[str, str]:
        """The arguments of the address."""
        return dict(self.request.query_params)

    async def manager(self) -> QueueManager:
        """The queue manager in the address. Raises what ``connect`` raises."""
        return await self.console.managers.get(self.name)

    @property
    def updates(self) -> bool:
        """Whether a page that is open asks for its live part."""
        return "hx-request" in self.request.headers

    async def reading(self, read: Read[S]) -> S:
        """What ``read`` gives: read now for a page that is being opened; its updates share their readings."""
        console, name, query, address = self.console, self.name, self.query, self.here()

        async def again(before: S | None) -> S:
            return await read(console, name, query, before)

        if not self.updates:
            console.pages.pop(address, None)
        return await console.page(address, again).state()

    async def form(self) -> dict[str, str]:
        """The fields of the form that was sent. Raises InvalidArgument; Forbidden if the console did not make it."""
        if self._form is None:
            check_origin(self.request)
            self._form = await read_form(self.request)
            self.console.signer.check_form(self.cookie.nonce, self._form.get("csrf", ""))
        return self._form

    def may(self, action: str) -> bool:
        """Whether the visitor may carry out an action here, where bodies may be hidden.

        ``action``: the name of one in ``actions.REGISTRY``, or "bodies": to show hidden bodies.
        """
        hidden = self.console.hide_bodies and action in REGISTRY and REGISTRY[action].shows_body
        return self.visitor.may(action) and (not hidden or self.visitor.may("bodies"))

    def root(self, path: str, **query: object) -> str:
        """The address of a path of the console, under the prefix where the console is mounted."""
        arguments = urlencode({name: value for name, value in query.items() if value not in (None, "")})
        return f"{self.request.scope.get('root_path', '')}{path}" + (f"?{arguments}" if arguments else "")

    def link(self, path: str, **query: object) -> str:
        """The address of a page of the queue manager at hand."""
        return self.root(f"/m/{quote(self.name)}{path}", **query)

    def here(self, **changes: object) -> str:
        """The address of this page with some arguments changed."""
        arguments: dict[str, object] = {**self.query, **changes}
        arguments.pop("done", None)
        path = self.request.url.path.removeprefix(self.request.scope.get("root_path", ""))
        return self.root(path, **arguments)

    def page(self, template: str, /, status: int = 200, **values: Any) -> Response:
        """A page made from a template, which must be given every name that it uses."""
        text = TEMPLATES.get_template(template).render(
            visit=self,
            navigation=self.console.navigation,
            csrf=self.console.signer.form_token(self.cookie.nonce),
            theme=theme_of(self.request),
            notice=self.notice,
            version=__version__,
            **values,
        )
        return HTMLResponse(text, status, {"cache-control": "no-store"})

    def redirect(self, address: str) -> Response:
        """Send the browser to another page."""
        return RedirectResponse(address, 303)


def login_page(request: Request, status: int, wrong: str = "") -> Response:
    """The page that asks for the token.

    It has no cookie and no token of a form: their signatures, whose key comes from the token, would let a visitor test
    guesses of it without the console.
    """
    page = TEMPLATES.get_template("login.html").render(
        root=request.scope.get("root_path", ""), theme=theme_of(request), wrong=wrong
    )
    return HTMLResponse(page, status, {"cache-control": "no-store"})


Endpoint = Callable[[Visit], Awaitable[Response]]


def admitted(console: Console, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint behind its checks: a visitor is known, and a POST comes from a form."""

    async def answer(request: Request) -> Response:
        known = console.signer.read_cookie(request.cookies.get(console.signer.cookie, ""))
        visitor = await console.find(request, known)
        if visitor is None:
            if console.access is None:
                return login_page(request, 401)
            raise Forbidden("You have no access to this console. Ask the person who runs it.")
        # Only with ``access`` is a visitor known before there is a cookie.
        cookie = known or console.signer.read_cookie(fresh := console.signer.new_cookie(admitted=False))
        assert cookie is not None  # noqa: S101 - it was made just now
        visit = Visit(console, request, visitor, cookie)
        if visit.name not in console.managers.names:
            raise HTTPException(404, f"This console shows no queue manager {visit.name!r:.60}.")
        if request.method == "POST":
            await visit.form()
        elif notice := visit.query.get("done"):
            visit.notice = console.signer.read_notice(cookie.nonce, notice)
        response = await endpoint(visit)
        if known is None:
            set_cookie(response, request, console.signer.cookie, fresh, COOKIE_SECONDS)
        return response

    return answer
