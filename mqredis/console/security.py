"""Signed cookies, tokens in forms, the check of the origin, and the headers of every response.

``application``, ``shared``, ``visit``, ``pages.entry``, ``pages.action`` and ``pages.messages`` use it; ``failure``
shows ``Forbidden``.

``POLICY`` forbids scripts and styles in templates, and base.html switches off those that htmx would add (htmx-config).
The times and sizes are in docs/console.md. A cookie is not stored anywhere, and not renewed by use. Another key, as
after a restart without token and secret, makes all cookies and forms invalid. With the same key, cookies of the release
before are valid: a text of another form needs another purpose in ``_sign``. ``SecurityHeaders`` replaces no header
that a response has.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import NamedTuple
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mqredis.errors import InvalidArgument

# Seconds that a cookie is valid.
COOKIE_SECONDS = 12 * 3600
# Largest form, in bytes and in fields. A body that is sent from a form has to fit, too.
MAX_FORM_BYTES, MAX_FORM_FIELDS = 1_048_576, 400

# No script and no style but those of the package, no other host, no frame around the console.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Forbidden(Exception):
    """The request was refused; the text says why and what to do."""


class Cookie(NamedTuple):
    """What the cookie of a browser says."""

    nonce: str
    # The visitor has given the console's token.
    admitted: bool


class Notice(NamedTuple):
    """What came of the action that led to a page."""

    # "done", or "started" if it has not ended.
    state: str
    text: str


class Signer:
    """Signs with one key, for cookies and for the tokens in forms."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        # Cookies are shared by all ports of a host, so consoles with different keys use different names.
        self.cookie = f"mqredis_console_{self._sign('name', '')[:8]}"

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}\0{text}".encode(), hashlib.sha256).hexdigest()

    def new_cookie(self, admitted: bool) -> str:
        """The value of a new cookie."""
        text = f"{secrets.token_urlsafe(18)}.{int(time.time()) + COOKIE_SECONDS}.{int(admitted)}"
        return f"{text}.{self._sign('cookie', text)}"

    def read_cookie(self, value: str) -> Cookie | None:
        """What a cookie says; None if it was not made here, or is too old."""
        text, _, signature = value.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("cookie", text).encode()):
            return None
        nonce, until, admitted = text.split(".")
        return Cookie(nonce, admitted == "1") if int(until) >= time.time() else None

    def form_token(self, nonce: str) -> str:
        """The token that forms carry in the browser with this cookie."""
        return self._sign("form", nonce)

    def signed_notice(self, nonce: str, notice: Notice) -> str:
        """A notice as an argument of an address, for the browser with this cookie."""
        return f"{self._sign('notice', f'{nonce}.{notice.state}.{notice.text}')}.{notice.state}.{notice.text}"

    def read_notice(self, nonce: str, value: str) -> Notice | None:
        """The notice in an address; None if it was not made here for the browser with this cookie."""
        signature, state, text = (*value.split(".", 2), "", "")[:3]
        right = self._sign("notice", f"{nonce}.{state}.{text}")
        return Notice(state, text) if hmac.compare_digest(signature.encode(), right.encode()) else None

    def check_form(self, nonce: str, token: str) -> None:
        """Raises Forbidden unless the token belongs to the cookie."""
        if not hmac.compare_digest(self.form_token(nonce).encode(), token.encode()):
            raise Forbidden(
                "The form is not from this console, or is too old. Reload the page and try again."
            )


def set_cookie(response: Response, request: Request, name: str, value: str, seconds: int) -> None:
    """Set a cookie that scripts cannot read, and that other sites cannot make the browser send."""
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=request.scope.get("root_path", "") or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def check_origin(request: Request) -> None:
    """Raises Forbidden unless the browser says that the request comes from a page of the console.

    Browsers send Origin with every POST. Hosts are compared without the scheme, which a proxy in front may change.
    """
    _, _, host = request.headers.get("origin", "").partition("://")
    if not host or host != request.headers.get("host"):
        raise Forbidden("The request does not come from a page of this console.")


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form. Raises InvalidArgument for a form that is too large or is none."""
    kind = request.headers.get("content-type", "").partition(";")[0]
    if kind != "application/x-www-form-urlencoded":
        raise InvalidArgument("a form is expected (application/x-www-form-urlencoded)")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_FORM_BYTES:
            raise InvalidArgument(f"the form is larger than {MAX_FORM_BYTES:,} bytes; use the command line")
    try:
        pairs = parse_qsl(data.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS)
    except ValueError:
        raise InvalidArgument("the form cannot be read") from None
    return dict(pairs)


class SecurityHeaders:
    """ASGI middleware: adds HEADERS to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with the headers."""

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                more = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(pair for pair in more if pair[0] not in present)]
            await send(message)

        await self.app(scope, receive, add)
