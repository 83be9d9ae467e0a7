"""Statistics, redrive and topics: stats.lua, stats_sample.lua, redrive.lua, subscribe.lua, subscriptions.lua and
queue_orphans.lua.

``mqredis.operations`` calls it: ``statistics``, ``redrive``, ``topics`` and ``manager``. A new counter in
``QueueStatistics`` is a pair in the reply of lua/stats.lua; ``models.queue`` says where else it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from mqredis import keys
from mqredis.codec.subscriptions import parse_subscription
from mqredis.commands.address import Address
from mqredis.commands.replies import check, check_queue, number, text
from mqredis.errors import InvalidArgument, QueueNotFound
from mqredis.keys import ManagerKeys
from mqredis.models import QueueStatistics, Subscription
from mqredis.status import Status
from mqredis.steps import Arg, Call, Payload


def statistics(manager: ManagerKeys, path: str) -> Call[tuple[QueueStatistics, bool]]:
    """Statistics of a queue, and whether a new sample of its counters is due."""

    def parse(status: int, payload: Payload) -> tuple[QueueStatistics, bool]:
        check_queue(status, path)
        row = {text(payload[n]): number(payload[n + 1]) for n in range(0, len(payload), 2)}
        seconds = row["rate_ms"] / 1000
        ages = {p: row[f"oldest{p}"] / 1000 for p in range(7, -1, -1) if f"oldest{p}" in row}
        found = QueueStatistics(
            name=path,
            ready=row["ready"],
            delayed=row["messages"] - row["ready"] - row["locked"],
            locked=row["locked"],
            messages=row["messages"],
            bytes=row["bytes"],
            waiters=row["waiters"],
            journal_messages=row["journal_messages"],
            journal_bytes=row["journal_bytes"],
            retry_messages=row["retry_messages"] + row["lapsed_messages"],
            retry_bytes=row["retry_bytes"] + row["lapsed_bytes"],
            poison_messages=row["poison_messages"],
            poison_bytes=row["poison_bytes"],
            total_in=row["messages"] + row["left"],
            total_out=row["left"],
            expired=row["n_receive_timeout"],
            purged=row["n_queue_purged"],
            rejected=row["n_receive_rejected"],
            poisoned=row["n_poison"],
            dropped=row["n_dropped"],
            retried=row["n_retried"],
            dead=row["dead"],
            oldest_seconds=ages,
            rate_in=row["rate_in"] / seconds if seconds > 0 else 0.0,
            rate_out=row["rate_out"] / seconds if seconds > 0 else 0.0,
            rate_seconds=seconds,
            overdue=row["overdue"] == 1,
        )
        return found, row["sample_due"] == 1

    name = path.partition(";")[0]
    paths = [path, f"{name};journal", f"{name};retry", f"{name};poison", f"{name};lapsed"]
    return Call("stats", manager.call(*paths), [], parse, changes=False)


def sample(manager: ManagerKeys, path: str) -> Call[None]:
    """Store a sample of a queue's counters, from which rates are computed."""
    return Call("stats_sample", manager.call(path), [], lambda code, _: check(code))


def redrive(source: Address, target: str, lookup_ids: Sequence[str]) -> Call[tuple[int, int]]:
    """Return dead letters or journal copies to the queues they came from, or send them to ``target``.

    The result: how many went, and the SequentialID of the last message before the call.
    """

    def parse(status: int, payload: Payload) -> tuple[int, int]:
        check(status)
        moved, last = payload
        return number(moved), int(last, 16)

    args: list[Arg] = [source.generation, keys.encode(target) if target else "", *lookup_ids]
    return Call("redrive", source.call, args, parse)


def subscribe(manager: ManagerKeys, topic: str, queue: str, selection: bytes) -> Call[None]:
    """Subscribe a queue to a topic; an empty ``selection`` ends the subscription."""

    def parse(status: int, payload: Payload) -> None:
        if status == Status.QUEUE_NOT_FOUND:
            raise QueueNotFound(f"there is no queue {(topic if payload[0] == b'topic' else queue)!r}")
        if status == Status.INVALID_PARAMETER:
            if payload[0] == b"topic":
                raise InvalidArgument(f"queue {topic!r} is not a topic")
            if payload[0] == b"transactional":
                raise InvalidArgument(
                    f"only one of topic {topic!r} and queue {queue!r} is transactional, so no message of the topic "
                    "could come to the queue: create one of them anew, as the other is"
                )
            raise InvalidArgument(f"{queue!r} is a topic, which keeps no messages: subscribe a queue")
        check(status)

    return Call("subscribe", manager.admin(topic, queue), [selection], parse)


def subscriptions(manager: ManagerKeys, topic: str) -> Call[list[Subscription]]:
    """The subscriptions of a topic, sorted by queue name."""

    def parse(status: int, payload: Payload) -> list[Subscription]:
        check_queue(status, topic)
        found = []
        for n in range(0, len(payload), 2):
            selector, _ = parse_subscription(payload[n + 1])
            queue = keys.decode(text(payload[n]))
            found.append(Subscription(topic=topic, queue=queue, selector=selector or None))
        return sorted(found, key=lambda item: item.queue)

    return Call("subscriptions", manager.admin(topic), [], parse, changes=False)


def orphans(manager: ManagerKeys) -> Call[list[str]]:
    """Temporary queues whose owner's session has ended. Sessions that are over end with the call."""

    def parse(status: int, payload: Payload) -> list[str]:
        check(status)
        return [text(item) for item in payload]

    return Call("queue_orphans", manager.admin(), [], parse)
