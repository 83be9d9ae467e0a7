"""Giving the token, leaving, and the choice of colours: the pages outside a queue manager.

``application`` has routes to it. POST /login does not pass ``visit.admitted``: there is no cookie yet, and no form
token; it checks the origin and the token of the console by itself. A console with ``access=`` has no token, and /login
refuses all. ``logout`` deletes the cookie of this browser; a copy of it stays valid until its time ends, since nothing
is stored.
"""

from __future__ import annotations

import hmac
import logging

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mqredis.console.rendering import THEME_COOKIE, THEMES
from mqredis.console.security import COOKIE_SECONDS, check_origin, read_form, set_cookie
from mqredis.console.shared import Console
from mqredis.console.visit import Visit, login_page

log = logging.getLogger("mqredis.console")

_YEAR = 365 * 86_400


async def login(console: Console, request: Request) -> Response:
    """Take the token, and remember in a signed cookie that it was right."""
    check_origin(request)
    form = await read_form(request)
    token = form.get("token", "")
    address = request.client.host if request.client else "unknown"
    wait = console.attempts.wait(address)
    right = not wait and bool(console.token) and hmac.compare_digest(token.encode(), console.token.encode())
    if wait:
        log.warning("a token from %s was refused: too many wrong ones came from there", address)
        wrong = f"Too many wrong tokens came from your address. Try again in {wait} s."
        response = login_page(request, 429, wrong)
        response.headers["retry-after"] = str(wait)
        return response
    if not right:
        console.attempts.wrong(address)
        log.warning("a wrong token from %s was refused", address)
        return login_page(request, 401, "This is not the token.")
    console.attempts.right(address)
    response = RedirectResponse(f"{request.scope.get('root_path', '')}/", 303)
    value = console.signer.new_cookie(admitted=True)
    set_cookie(response, request, console.signer.cookie, value, COOKIE_SECONDS)
    return response


async def logout(visit: Visit) -> Response:
    """Forget that the token was given."""
    response = visit.redirect(visit.root("/"))
    set_cookie(response, visit.request, visit.console.signer.cookie, "", 0)
    return response


async def theme(visit: Visit) -> Response:
    """Remember the colours that the visitor chose; none: those of the system."""
    form = await visit.form()
    chosen = form.get("theme", "")
    response = RedirectResponse(_same_site(visit, form.get("back", "")), 303)
    set_cookie(response, visit.request, THEME_COOKIE, chosen if chosen in THEMES else "", _YEAR)
    return response


def _same_site(visit: Visit, address: str) -> str:
    """The address if it is a page of this console, else its first page."""
    root = visit.root("/")
    return address if address.startswith(root) and not address.startswith(("//", "/\\")) else root


async def start(visit: Visit) -> Response:
    """The first queue manager."""
    return visit.redirect(visit.link("/"))
