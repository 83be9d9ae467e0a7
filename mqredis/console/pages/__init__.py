"""The pages of the console, and the navigation between them."""

from __future__ import annotations

from mqredis.console.pages import action, failures, holders, log, messages, overview, server, topics
from mqredis.console.visit import Endpoint

#: Title and path of each page in the navigation, under the queue manager.
NAVIGATION = (
    ("Overview", "/"),
    ("Failures", "/failures"),
    ("In flight", "/in-flight"),
    ("Clients", "/clients"),
    ("Topics", "/topics"),
    ("Doctor", "/doctor"),
    ("Server", "/server"),
    ("Actions", "/actions"),
)

#: Pages by their path under the queue manager.
PAGES: dict[str, Endpoint] = {
    "/": overview.overview,
    "/queue": overview.queue,
    "/events": overview.events,
    "/messages": messages.messages,
    "/message": messages.message,
    "/body": messages.body,
    "/failures": failures.failures,
    "/in-flight": holders.in_flight,
    "/clients": holders.clients,
    "/topics": topics.topics,
    "/doctor": server.doctor,
    "/server": server.server,
    "/actions": log.actions,
}

#: The form of an action, and what its button does.
CONFIRM, CARRY_OUT = action.confirm, action.carry_out
