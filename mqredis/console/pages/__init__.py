"""The pages of the console, and the navigation between them."""

from __future__ import annotations

from mqredis.console.pages import (
    action,
    failures,
    holders,
    log,
    messages,
    overview,
    scheduled,
    schedules,
    server,
    topics,
    workers,
)
from mqredis.console.visit import Endpoint

#: Title and path of each page in the navigation, under the queue manager.
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

#: Pages that a client with ``Settings(read_only=True)`` cannot make.
_OF_WRITERS = {"/doctor", "/actions"}


def navigation(read_only: bool) -> tuple[tuple[str, str], ...]:
    """The navigation of a console that reads only, or of one that acts."""
    return tuple((title, path) for title, path in NAVIGATION if not read_only or path not in _OF_WRITERS)


#: Pages by their path under the queue manager.
PAGES: dict[str, Endpoint] = {
    "/": overview.overview,
    "/queue": overview.queue,
    "/events": overview.events,
    "/messages": messages.messages,
    "/message": messages.message,
    "/body": messages.body,
    "/failures": failures.failures,
    "/scheduled": scheduled.scheduled,
    "/in-flight": holders.in_flight,
    "/workers": workers.workers,
    "/schedules": schedules.schedules,
    "/clients": holders.clients,
    "/topics": topics.topics,
    "/doctor": server.doctor,
    "/server": server.server,
    "/actions": log.actions,
}

#: The form of an action, and what its button does.
CONFIRM, CARRY_OUT = action.confirm, action.carry_out
