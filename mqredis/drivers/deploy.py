"""The deploy step: load the scripts of this release into a server.

``mqredis scripts`` calls it (``cli.scripts``).

Clients that may not load scripts themselves depend on it. It opens no session, uses no key, and its user needs no other
right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from redis import exceptions as rx

from mqredis import scripts
from mqredis.drivers.connect import open_backend
from mqredis.drivers.greeting import FUNCTION_PROBE
from mqredis.drivers.net.discovery import named_node
from mqredis.drivers.net.pool import Backend, Connection
from mqredis.drivers.net.redaction import redact
from mqredis.drivers.net.wire import REDIS_ERRORS, Fault, fault_of
from mqredis.errors import BrokerFull, BrokerRefused, BrokerUnavailable, MqError
from mqredis.keys import ManagerKeys
from mqredis.operations.libraries import OURS, library_name
from mqredis.scripts import Form
from mqredis.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Server:
    """The result for one server."""

    server: str
    """The server's address, without secrets."""
    kind: str
    """"functions" (Redis 7, Valkey) or "scripts"."""
    count: int
    """``load``: the scripts that were loaded; ``check``: those of this release that the server has; ``clean``: the
    libraries that were deleted."""
    missing: tuple[str, ...] = ()
    """Names of the scripts that are missing."""


def load(where: Any, settings: Settings, *, functions: bool = True) -> list[Server]:
    """Load every script of this release. Loading one again changes nothing.

    In a cluster every primary gets the scripts. ``functions=False``: for clients that may not call functions.

    Raises:
        BrokerUnavailable, BrokerRefused, BrokerFull: some scripts may have been loaded; doing it again is safe.
    """

    def work(connection: Connection, address: str) -> Server:
        forms = _forms(connection, functions)
        # One library holds several functions.
        for load in dict.fromkeys(form.load for _, form in forms):
            connection.command(*load)
        return Server(address, _kind(forms), len(scripts.names()))

    return _each(
        where, settings, work, "Some scripts may have been loaded; it is safe to run the command again"
    )


def check(where: Any, settings: Settings, *, functions: bool = True) -> list[Server]:
    """Which scripts of this release does each server have? Raises BrokerUnavailable, BrokerRefused."""

    def work(connection: Connection, address: str) -> Server:
        forms = _forms(connection, functions)
        if _kind(forms) == "functions":
            there = set(_libraries(connection))
            missing = [name for name in scripts.names() if scripts.get(name).library.title not in there]
        else:
            found = connection.command("SCRIPT", "EXISTS", *[form.name for _, form in forms])
            missing = sorted({name for (name, _), known in zip(forms, found, strict=True) if not known})
        return Server(address, _kind(forms), len(scripts.names()) - len(missing), tuple(missing))

    return _each(where, settings, work, "Nothing was changed")


def clean(where: Any, settings: Settings) -> list[Server]:
    """Delete the functions that other releases have loaded. Clients of those releases stop working, unless they may
    load scripts. Errors as in :func:`load`."""

    def work(connection: Connection, address: str) -> Server:
        current = {library.title for library in scripts.libraries()}
        old = [name for name in _libraries(connection) if name not in current]
        for name in old:
            connection.command("FUNCTION", "DELETE", name)
        return Server(address, "functions", len(old))

    return _each(
        where, settings, work, "Some functions may have been deleted; it is safe to run the command again"
    )


def _forms(connection: Connection, functions: bool) -> list[tuple[str, Form]]:
    """Everything that clients of this server call: functions, or scripts with or without the flags line. Each with the
    name of its script."""
    known, each = _knows_functions(connection), [(name, scripts.get(name)) for name in scripts.names()]
    if known and functions:
        return [(name, script.function()) for name, script in each]
    found = [(name, script.form(known)) for name, script in each]
    if not known:  # the form for a full server
        found += [(name, form) for name, script in each if (form := script.draining()) is not None]
    return found


def _kind(forms: list[tuple[str, Form]]) -> str:
    return "functions" if forms[0][1].verb == "FCALL" else "scripts"


def _knows_functions(connection: Connection) -> bool:
    try:
        connection.command(*FUNCTION_PROBE)
    except rx.ResponseError as error:
        return "unknown command" not in str(error).lower()
    return False


def _libraries(connection: Connection) -> list[str]:
    """Names of the libraries that releases of mqredis have loaded."""
    try:
        reply = connection.command("FUNCTION", "LIST", "LIBRARYNAME", "mqredis_*")
    except rx.ResponseError as error:
        if "unknown command" in str(error).lower():
            return []  # a server before Redis 7
        raise
    return [name for name in map(library_name, reply) if OURS.fullmatch(name)]


def _each(where: Any, settings: Settings, work: Callable[[Connection, str], T], done: str) -> list[T]:
    """Do the work on the server, in a cluster on each primary. ``done``: what an error says was done."""
    backend = open_backend(where, settings, ManagerKeys(settings.manager).own[0])
    try:
        with _typed(backend, done):
            if backend.plan.target.kind != "cluster":
                with _connection(backend) as connection:
                    return [work(connection, backend.address)]
            with _connection(backend) as connection:
                slots, asked = connection.command("CLUSTER", "SLOTS"), backend.plan.node or ("", 0)
            nodes = _primaries(asked, slots)
            found = []
            for node in nodes:
                with _connection(backend, node) as connection:
                    found.append(work(connection, f"{node[0]}:{node[1]}"))
            return found
    finally:
        backend.close()


@contextmanager
def _connection(backend: Backend, node: tuple[str, int] | None = None) -> Iterator[Connection]:
    """A connection to the manager's server, or to ``node``, that is closed at the end."""
    connection = backend.acquire(time.monotonic() + backend.plan.settings.connect_timeout_seconds, node)
    try:
        yield connection
    finally:
        backend.discard(connection)


def _primaries(asked: tuple[str, int], slots: Any) -> list[tuple[str, int]]:
    return list(dict.fromkeys(named_node(asked, primary) for _, _, primary, *_ in slots))


@contextmanager
def _typed(backend: Backend, done: str) -> Iterator[None]:
    """Raise errors of the server as errors of this package, which say what was done."""
    try:
        yield
    except REDIS_ERRORS as error:
        fault, text = fault_of(error), redact(error, *backend.plan.secrets).rstrip(".")
        kind: type[MqError] = BrokerUnavailable
        if fault in (Fault.REFUSED, Fault.BUG):
            kind = BrokerRefused
        elif fault is Fault.FULL:
            kind = BrokerFull
        raise kind(
            f"{backend.address}: {text}. {done}. `mqredis acl --role deploy` prints the rights that it needs"
        ) from None
