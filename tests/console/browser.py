"""A browser without scripts: it follows links, keeps cookies, and sends forms as a browser does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from html.parser import HTMLParser
from typing import Any

import httpx
from starlette.applications import Starlette

HOST = "http://console.test"


class _Fields(HTMLParser):
    """The fields of the last form of a page that is sent by POST, and all addresses on the page."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.addresses: list[str] = []
        self._sends = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            self._sends = given.get("method") == "post"
            if self._sends:
                self.fields = {}
        if tag == "input" and given.get("name") and self._sends:
            if given.get("type") != "checkbox":
                self.fields[str(given["name"])] = given.get("value") or ""
            elif "checked" in given:
                self.fields[str(given["name"])] = "on"
        self.addresses += [
            str(given[name]) for name in ("href", "src", "action", "data-events", "hx-get") if given.get(name)
        ]


class Page:
    """A response, and what is on it."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.status = response.status_code
        self.html = response.text
        self._parsed = _Fields()
        self._parsed.feed(self.html)

    @property
    def text(self) -> str:
        """What a person reads, with single spaces."""
        body = re.sub(r"<(script|style|head)\b.*?</\1>|<[^>]*>", " ", self.html, flags=re.DOTALL)
        return " ".join(unescape(body).split())

    @property
    def fields(self) -> dict[str, str]:
        """The fields of the last form that is sent by POST."""
        return self._parsed.fields

    @property
    def addresses(self) -> list[str]:
        """Every address on the page."""
        return self._parsed.addresses


class Browser:
    """Visits a console that is mounted under ``prefix``."""

    def __init__(self, app: Any, prefix: str = "", client: tuple[str, int] = ("127.0.0.1", 1)) -> None:
        self.prefix = prefix
        self._console = getattr(app.state, "console", None)
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app, client=client, raise_app_exceptions=True),
            base_url=HOST,
            follow_redirects=True,
        )

    async def get(self, path: str, status: int = 200, **query: str) -> Page:
        """Open a page; it must have this status."""
        page = Page(await self.client.get(self.prefix + path, params=query or None))
        assert page.status == status, page.text
        return page

    async def post(
        self, path: str, fields: Mapping[str, str], status: int = 200, origin: str | None = HOST
    ) -> Page:
        """Send a form."""
        headers = {"origin": origin} if origin else {}
        page = Page(await self.client.post(self.prefix + path, data=dict(fields), headers=headers))
        assert page.status == status, page.text
        return page

    async def act(self, action: str, status: int = 200, confirm: str = "", **fields: str) -> Page:
        """Open the form of an action, fill it in, and send it."""
        path = f"/m/main/act/{action}"
        form = await self.get(
            path, 200, **{name: value for name, value in fields.items() if name in ("queue", "id", "topic")}
        )
        return await self.post(
            path, {**form.fields, **fields, **({"confirm": confirm} if confirm else {})}, status
        )

    async def examine(self, status: int = 200) -> Page:
        """Let the doctor examine the queue manager."""
        form = await self.get("/m/main/doctor")
        return await self.post("/m/main/doctor", form.fields, status)

    async def close(self) -> None:
        """End its connections, and those that the console has opened."""
        await self.client.aclose()
        if self._console is not None:
            await self._console.managers.close()


def mounted(app: Starlette, prefix: str) -> Starlette:
    """Another application with the console under a prefix."""
    outer = Starlette()
    outer.mount(prefix, app)
    return outer
