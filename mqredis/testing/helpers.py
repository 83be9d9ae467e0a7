"""Helpers of tests: the broker's clock, and functions that read or check an open queue.

The fixtures of ``pytest_mqredis`` return the clock; tests of applications import the functions from
``mqredis.testing``. ``docs/testing.md`` describes them. The clock can be moved only with the setting ``test_clock``,
which these fixtures set.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from mqredis.client import Queue, QueueManager
from mqredis.commands.read import BATCH
from mqredis.errors import InvalidArgument, IoTimeout
from mqredis.models import Message, PropertyValue
from mqredis.operations import checks


class Clock:
    """The broker's clock, which runs; ``advance`` moves it forward, and with it expiries, delays and leases."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._moved = 0.0

    @property
    def moved(self) -> float:
        """By how many seconds the clock was moved so far."""
        return self._moved

    def advance(self, seconds: float) -> None:
        """Move the clock forward, and serve everything that became due. Raises InvalidArgument, also for a negative
        number, since the broker's time only goes forward."""
        self._manager.advance_clock(seconds)
        self._moved += seconds
        self._manager.maintain()


def _check(queue: object, helper: str) -> None:
    """Raise InvalidArgument unless this is a queue of a blocking manager."""
    if not isinstance(queue, Queue):
        raise InvalidArgument(
            f"{helper} takes an open queue of a blocking manager, not {checks.type_name(queue)}: open the same queue "
            "with the fixture mqredis_manager, which shares its broker with mqredis_async_manager"
        )


def drain(queue: Queue) -> list[Message]:
    """Take all available messages, in delivery order. Locked and delayed ones stay. Raises InvalidArgument."""
    _check(queue, "drain")
    taken: list[Message] = []
    manager = queue.manager
    while True:
        try:
            if queue.handle.transactional:
                with manager.transaction() as tx:
                    taken += queue.receive_many(BATCH, timeout=0, transaction=tx)
            else:
                taken += queue.receive_many(BATCH, timeout=0)
        except IoTimeout:
            return taken


def assert_sent(
    queue: Queue,
    body: bytes | str | None = None,
    *,
    count: int | None = None,
    properties: Mapping[str, PropertyValue] | None = None,
    **fields: Any,
) -> list[Message]:
    """Assert that matching messages are available in ``queue``, and leave them there. Returns them.

    ``body`` and ``fields`` (any field of Message) must be equal, ``properties`` must be among the message's.
    ``count``: exactly so many; without it, at least one. Raises InvalidArgument for a queue of asyncio, TypeError for a
    field that Message does not have.
    """
    _check(queue, "assert_sent")
    if not isinstance(body, bytes | bytearray | memoryview | str | None):
        raise InvalidArgument(
            f"body must be bytes or str, not {type(body).__name__}: compare what json.loads makes of the bodies of the "
            "messages that assert_sent returns"
        )
    if count is not None:
        checks.count(count, "count", sys.maxsize, least=0)
    if not isinstance(properties, Mapping | None):
        raise InvalidArgument(f"properties must be a mapping, not {type(properties).__name__}")
    wanted = body.encode() if isinstance(body, str) else body
    unknown = set(fields) - set(Message.FIELDS)
    if unknown:
        raise TypeError(f"a message has no field {sorted(unknown)[0]!r}")
    present = list(queue.browse())
    found = [message for message in present if _like(message, wanted, properties or {}, fields)]
    if (count is None and not found) or (count is not None and len(found) != count):
        wish = "at least one message" if count is None else f"exactly {count} message(s)"
        asked = ", ".join(
            f"{name}={value!r:.80}"
            for name, value in {"body": wanted, "properties": properties, **fields}.items()
            if value is not None
        )
        shown = "".join(f"\n  {_show(message)}" for message in present[:10]) or " nothing"
        more = f"\n  and {len(present) - 10} more" if len(present) > 10 else ""
        raise AssertionError(
            f"queue {queue.name!r} should hold {wish} with {asked or 'anything in it'}; "
            f"{len(found)} match. It holds:{shown}{more}"
        )
    return found


def assert_nothing_sent(queue: Queue) -> None:
    """Assert that no message is available in ``queue``. Raises InvalidArgument for a queue of asyncio."""
    _check(queue, "assert_nothing_sent")
    present = list(queue.browse())
    if present:
        shown = "".join(f"\n  {_show(message)}" for message in present[:10])
        raise AssertionError(f"queue {queue.name!r} should be empty; it holds {len(present)}:{shown}")


def _like(
    message: Message, body: bytes | None, properties: Mapping[str, PropertyValue], fields: dict[str, Any]
) -> bool:
    if body is not None and message.body != body:
        return False
    missing = object()
    for name, value in properties.items():
        found = message.properties.get(name, missing)
        if found != value or type(found) is not type(value):
            return False
    return all(getattr(message, name) == value for name, value in fields.items())


def _show(message: Message) -> str:
    extra = f" properties={message.properties!r:.80}" if message.properties else ""
    label = f" label={message.label!r}" if message.label else ""
    return f"priority {message.priority} {message.body!r:.80}{label}{extra}"
