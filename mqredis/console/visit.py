"""One request to the console: who makes it, and how it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import isawaitable
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mqredis import __version__
from mqredis.asyncio import QueueManager
from mqredis.console import charts, formats
from mqredis.console.access import Access, Visitor
from mqredis.console.attempts import Attempts
from mqredis.console.managers import Managers
from mqredis.console.overview import Overview
from mqredis.console.poller import Poller
from mqredis.console.security import (
    COOKIE_SECONDS,
    Cookie,
    Forbidden,
    Notice,
    Signer,
    check_origin,
    read_form,
    set_cookie,
)
from mqredis.models import QueueHistory
from mqredis.models.worker import Pause, WorkerInfo

THEMES = ("light", "dark")
# Actions whose forms show the body of a message.
SHOW_BODIES = frozenset({"send-again"})


class Workers(NamedTuple):
    """The workers that live, and what operators have paused."""

    workers: list[WorkerInfo]
    pauses: list[Pause]


@dataclass
class Console:
    """What all requests to one console share."""

    managers: Managers
    signer: Signer
    # None: visitors are asked for ``token``.
    access: Access | None
    token: str
    read_only: bool
    hide_bodies: bool
    # Seconds between two readings of the state of a queue manager that is being looked at.
    interval: float
    # Titles and paths of the pages in the navigation.
    navigation: tuple[tuple[str, str], ...] = ()
    attempts: Attempts = field(default_factory=Attempts)
    pollers: dict[str, Poller[Overview]] = field(default_factory=dict)
    histories: dict[str, Poller[dict[str, QueueHistory]]] = field(default_factory=dict)
    worker_pollers: dict[str, Poller[Workers]] = field(default_factory=dict)

    def poller(self, name: str) -> Poller[Overview]:
        """The poller of a queue manager."""

        async def read(before: Overview | None) -> Overview:
            return await Overview.read(await self.managers.get(name), before)

        if name not in self.pollers:
            self.pollers[name] = Poller(read, self.interval)
        return self.pollers[name]

    def workers(self, name: str) -> Poller[Workers]:
        """The poller of the workers of a queue manager."""

        async def read(_: Workers | None) -> Workers:
            manager = await self.managers.get(name)
            return Workers(await manager.workers(), await manager.pauses())

        if name not in self.worker_pollers:
            self.worker_pollers[name] = Poller(read, self.interval)
        return self.worker_pollers[name]

    async def last_hour(self, name: str) -> dict[str, QueueHistory]:
        """The last hour of each queue in the overview, by name, as read at most 5 minutes ago."""

        async def read(_: dict[str, QueueHistory] | None) -> dict[str, QueueHistory]:
            state = await self.poller(name).state()
            manager = await self.managers.get(name)
            return await manager.histories(
                [row.depth.name for row in state.rows], since=charts.SPANS["hour"].since
            )

        if name not in self.histories:
            self.histories[name] = Poller(read, charts.SPANS["hour"].step)
        return await self.histories[name].state()

    async def find(self, request: Request, cookie: Cookie | None) -> Visitor | None:
        """The visitor behind a request; None: refused, or the token has to be given first."""
        if self.access is None:
            host = request.client.host if request.client else "unknown"
            found = Visitor(f"token from {host}", "all") if cookie is not None and cookie.admitted else None
        else:
            answer = self.access(request)
            found = await answer if isawaitable(answer) else answer
        return Visitor(found.name) if found is not None and self.read_only else found


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

    async def form(self) -> dict[str, str]:
        """The fields of the form that was sent. Raises InvalidArgument; Forbidden if the console did not make it."""
        if self._form is None:
            check_origin(self.request)
            self._form = await read_form(self.request)
            self.console.signer.check_form(self.cookie.nonce, self._form.get("csrf", ""))
        return self._form

    def may(self, action: str) -> bool:
        """Whether the visitor may carry out an action here, where bodies may be hidden."""
        hidden = action in SHOW_BODIES and self.console.hide_bodies
        return self.visitor.may(action) and (not hidden or self.visitor.may("bodies"))

    def root(self, path: str, **query: object) -> str:
        """The address of a path of the console, under the prefix where the console is mounted."""
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{self.request.scope.get('root_path', '')}{path}" + (f"?{urlencode(given)}" if given else "")

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
        """A page made from a template."""
        theme = self.request.cookies.get("mqredis_theme", "")
        text = TEMPLATES.get_template(template).render(
            visit=self,
            navigation=self.console.navigation,
            csrf=self.console.signer.form_token(self.cookie.nonce),
            theme=theme if theme in THEMES else "",
            notice=self.notice,
            version=__version__,
            **values,
        )
        return HTMLResponse(text, status, {"cache-control": "no-store"})

    def redirect(self, address: str) -> Response:
        """Send the browser to another page."""
        return RedirectResponse(address, 303)


Endpoint = Callable[[Visit], Awaitable[Response]]


def admitted(console: Console, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint behind the checks that every request passes: a visitor is known, and a POST comes from a form."""

    async def answer(request: Request) -> Response:
        known = console.signer.read_cookie(request.cookies.get(console.signer.cookie, ""))
        cookie = known or console.signer.read_cookie(fresh := console.signer.new_cookie(admitted=False))
        assert cookie is not None  # noqa: S101 - it was made just now
        visitor = await console.find(request, cookie)
        if visitor is None:
            if console.access is not None:
                raise Forbidden("You have no access to this console. Ask the person who runs it.")
            visit = Visit(console, request, Visitor("unknown"), cookie)
            response = visit.page("login.html", 401, wrong="")
        else:
            visit = Visit(console, request, visitor, cookie)
            if visit.name not in console.managers.names:
                raise HTTPException(404, f"This console shows no queue manager {visit.name!r:.60}.")
            if request.method == "POST":
                await visit.form()
            elif told := visit.query.get("done"):
                visit.notice = console.signer.read_notice(cookie.nonce, told)
            response = await endpoint(visit)
        if known is None:
            set_cookie(response, request, console.signer.cookie, fresh, COOKIE_SECONDS)
        return response

    return answer


def _environment() -> Environment:
    """Templates of the package. Every value is escaped, and a name that a template misspells is an error."""
    made = Environment(
        loader=PackageLoader("mqredis.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=formats.visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(formats.FILTERS)
    return made


TEMPLATES = _environment()


def fields_of(values: Mapping[str, str], *names: str) -> dict[str, str]:
    """Some of the fields of a form or an address, without those that are empty."""
    return {name: values[name] for name in names if values.get(name)}
