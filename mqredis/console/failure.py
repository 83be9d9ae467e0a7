"""Errors as pages that say what to do.

``application`` answers with them. ``pages.action`` shows an MqError above the form instead.

A new class of error that should have a status of its own goes into ``ADVICE`` in front of its base class; without it,
it is "The broker refused". error.html does not extend base.html, since there may be no visit and no broker. Other
exceptions are faults of the console: they have no page, and Starlette answers 500. console.js takes the status of a
failed update as the end of a search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from mqredis.console.formats import in_words
from mqredis.console.rendering import TEMPLATES, theme_of
from mqredis.console.security import Forbidden
from mqredis.errors import (
    AccessDenied,
    BrokerFull,
    BrokerRefused,
    BrokerUnavailable,
    EnqueueRefused,
    GetInhibited,
    InvalidArgument,
    ManagerNotFound,
    MessageNotFound,
    MqError,
    OutcomeUnknown,
    QueueNotFound,
    SealBroken,
    SessionExpired,
    TransactionUsage,
    lacks_right,
)

# The title and the status of the page of an error, and what a visitor can do. The first class that fits counts, so a
# subclass stands before its base class.
ADVICE: tuple[tuple[type[MqError], str, int, str], ...] = (
    (
        QueueNotFound,
        "There is no such queue",
        404,
        "It may have been deleted. The overview shows the queues that exist.",
    ),
    (
        MessageNotFound,
        "There is no such message",
        404,
        "It was received, moved, deleted, or has expired since the page was made.",
    ),
    (
        TransactionUsage,
        "The message is held",
        409,
        "The message is locked: a reader has it, or a transaction. Wait until that ends.",
    ),
    (
        AccessDenied,
        "This console only reads",
        409,
        "This console only reads. Use another one for what writes to the broker.",
    ),
    (
        GetInhibited,
        "Reads are refused",
        409,
        "Reads of this queue are switched off. An operator can switch them on on its page.",
    ),
    (
        SealBroken,
        "The body is sealed",
        409,
        "The body is sealed. Give the console a manager that was opened with the sealer.",
    ),
    (
        OutcomeUnknown,
        "It is not known whether this was done",
        503,
        "Look whether the change was made before you repeat it.",
    ),
    (
        BrokerUnavailable,
        "The broker cannot be reached",
        503,
        "Check that Redis runs and can be reached. The next request tries again.",
    ),
    (
        BrokerFull,
        "The memory of the broker is full",
        507,
        "Redis is at its memory limit. Purge a queue that is not needed, or raise maxmemory.",
    ),
    (
        BrokerRefused,
        "The server refuses the user of the console",
        403,
        "The user of the console lacks a right on the server, or its password is wrong: mqredis acl prints all rights.",
    ),
    (
        ManagerNotFound,
        "The queue manager is gone",
        404,
        "Its data were deleted or replaced. Check the database in the URL; the next request shows the present data.",
    ),
    (SessionExpired, "The console was idle for long", 409, "Repeat the request."),
    (
        EnqueueRefused,
        "The message was refused",
        507,
        "Nothing was done. Make room: purge a queue, raise the quota, or end the flow control.",
    ),
    (InvalidArgument, "This cannot be shown", 400, "Correct the address or the form."),
    (MqError, "The broker refused", 409, "The documentation of errors says more."),
)


def _page(
    status: int,
    title: str,
    text: str,
    advice: str,
    request: Request,
    name: str = "",
    managers: Sequence[str] = (),
) -> Response:
    """A page that needs nothing of the broker and nothing of the visitor.

    ``name``: of the error, as the documentation has it. ``managers``: the page leads to them.
    """
    root = request.scope.get("root_path", "")
    page = TEMPLATES.get_template("error.html").render(
        title=title,
        text=text,
        advice=advice,
        name=name,
        managers=managers if len(managers) > 1 else (),
        root=root,
        theme=theme_of(request),
    )
    return HTMLResponse(page, status, {"cache-control": "no-store"})


async def refused(request: Request, error: Exception) -> Response:
    """The page for an error of the broker."""
    # A visitor without access gets no error of the broker.
    managers = request.app.state.console.managers.names
    for kind, title, status, advice in ADVICE:
        if isinstance(error, kind):
            if lacks_right(error):
                advice += " If that user may only read, start the console with --read-only (read_only=True)."
            return _page(status, title, in_words(error), advice, request, type(error).__name__, managers)
    raise error


async def forbidden(request: Request, error: Exception) -> Response:
    """The page for a request that the console refuses."""
    return _page(403, "Refused", str(error), "Nothing was done.", request)


async def other(request: Request, error: Exception) -> Response:
    """The page for an address that does not exist, or a wrong method.

    The text of a 404 that a page raises is shown; that of Starlette's own 404 is not.
    """
    status = error.status_code if isinstance(error, HTTPException) else 500
    title, text = str(status), "The request cannot be answered."
    if status == 404:
        title, text = "There is no page here", "The address is wrong, or what it names is gone."
        if isinstance(error, HTTPException) and error.detail != HTTPStatus(404).phrase:
            text = error.detail
    return _page(status, title, text, "The overview leads to every page.", request)


HANDLERS: Mapping[Any, Callable[[Request, Exception], Any]] = {
    MqError: refused,
    Forbidden: forbidden,
    HTTPException: other,
}
