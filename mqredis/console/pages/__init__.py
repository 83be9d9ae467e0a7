"""The pages of the console, and the navigation between them.

A new page is a function that takes a ``Visit``, a template in console/templates, a path in ``PAGES``, and a row in
docs/console.md; a page with a link on every page also has a line in ``NAVIGATION``. A page that calls the macro
``live`` is updated, and docs/console.md says how often. ``application`` makes the routes; tests/console/test_cluster.py
opens every page.
"""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import Response

from mqredis.console.pages import (
    action,
    failures,
    find,
    holders,
    log,
    messages,
    overview,
    scheduled,
    schedules,
    server,
    topics,
    trails,
    workers,
)
from mqredis.console.visit import Endpoint, Visit

# Title and path of each page in the navigation, under the queue manager.
NAVIGATION = (
    ("Overview", "/"),
    ("Failures", "/failures"),
    ("Scheduled", "/scheduled"),
    ("In flight", "/in-flight"),
    ("Workers", "/workers"),
    ("Schedules", "/schedules"),
    ("Clients", "/clients"),
    ("Topics", "/topics"),
    ("Doctor", "/doctor"),
    ("Server", "/server"),
    ("Actions", "/actions"),
)

# The page that a client with ``Settings(read_only=True)`` cannot make. Its form is sent to the same path.
DOCTOR = "/doctor"


def navigation(read_only: bool) -> tuple[tuple[str, str], ...]:
    """The navigation of a console that reads only, or of one that acts."""
    return tuple((title, path) for title, path in NAVIGATION if not read_only or path != DOCTOR)


async def _doctor(visit: Visit) -> Response:
    if visit.console.read_only:
        text = "The doctor needs a client that may change things, and this console only reads."
        raise HTTPException(404, f"{text} Run mqredis doctor, or open another console.")
    return await server.doctor(visit)


# Pages by their path under the queue manager.
PAGES: dict[str, Endpoint] = {
    "/": overview.overview,
    "/queue": overview.queue,
    "/events": overview.events,
    "/messages": messages.messages,
    "/message": messages.message,
    "/body": messages.body,
    "/find": find.find,
    "/trail": trails.trail,
    "/failures": failures.failures,
    "/scheduled": scheduled.scheduled,
    "/in-flight": holders.in_flight,
    "/workers": workers.workers,
    "/schedules": schedules.schedules,
    "/clients": holders.clients,
    "/topics": topics.topics,
    DOCTOR: _doctor,
    "/server": server.server,
    "/actions": log.actions,
}

# The form of an action, and what its button does.
CONFIRM, CARRY_OUT = action.confirm, action.carry_out
