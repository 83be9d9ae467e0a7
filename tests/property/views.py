"""What operators see (``mqredis.inspection``) against the state of the model, after random steps."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from mqredis.keys import kept_by_broker
from mqredis.models import Match, StoredMessage
from tests.model.adm import Position, Queue, Reason, State, UnitOfWork, as_message
from tests.model.store import Store
from tests.property.steps import plain

# The clocks of the model and of the server differ by the time that the steps really took; durations of the steps are
# multiples of 1000 s.
TOLERANCE = timedelta(seconds=500)


class Views:
    """The views of one queue manager, and what the model says that they show."""

    def __init__(self, qm: Any, store: Store, rng: random.Random) -> None:
        self.qm, self.store, self.rng = qm, store, rng
        self.began = min(info.created_at for info in qm.queues()) - min(
            store.instant(queue.created) for queue in store.queues.values()
        )

    def differences(self) -> Iterator[tuple[str, Any, Any]]:
        """Name of the view, what the model says, and what the view shows, where these differ."""
        for view in (
            self.messages,
            self.scheduled,
            self.locks,
            self.single,
            self.transactions,
            self.overview,
        ):
            for name, expected, shown in view():
                if expected != shown:
                    yield f"{view.__name__} {name}", expected, shown

    def queues(self) -> list[tuple[str, Queue]]:
        return sorted(self.store.queues.items())

    def pages(self, read: Callable[..., Any], limit: int) -> list[Any]:
        found, after = [], None
        while True:
            page = read(after=after, limit=limit)
            assert len(page.items) <= limit
            found += page.items
            if page.next is None:
                return found
            after = page.next

    def time(self, seconds: float | None, shown: Any) -> str:
        """Does a time of the server agree with one of the model?"""
        if seconds is None or shown is None:
            return "" if seconds is shown else f"{seconds} and {shown}"
        gap = abs(shown - self.began - self.store.instant(seconds))
        return "" if gap < TOLERANCE else f"{gap} apart"

    # ---- messages --------------------------------------------------------------------------------

    def stored(self, position: Position) -> tuple[Any, ...]:
        """A message as an operator sees it in the state it has in the model."""
        expires = position.stored.expires  # it outlives that time only while it is locked
        overdue = expires is not None and expires <= self.store.now()
        return (self.state(position), plain(as_message(position)), "", True, overdue)

    def shown(self, position: Position | None, stored: StoredMessage) -> tuple[Any, ...]:
        due = None if position is None else self.due(position)
        return (
            stored.state,
            plain(stored.message),
            self.time(due, stored.due_at),
            stored.complete,
            stored.overdue,
        )

    def due(self, position: Position) -> float | None:
        if position.state is not State.AVAILABLE:
            return None
        if self.is_resting(position):
            return position.queue.main.resting[position.lookup_id]
        return position.stored.due if position.stored.due > self.store.now() else None

    def is_resting(self, position: Position) -> bool:
        """Does it rest between two attempts?"""
        return position.queue.name.endswith(";retry") and position.lookup_id in position.queue.main.resting

    def state(self, position: Position) -> str:
        if position.state is not State.AVAILABLE:
            return "locked"
        if self.is_resting(position):
            return "retry"
        return "delayed" if self.due(position) is not None else "ready"

    def rows(self, queue: Queue, found: list[StoredMessage]) -> list[tuple[Any, ...]]:
        return [self.shown(self.position(queue, each), each) for each in found]

    def position(self, queue: Queue, stored: StoredMessage) -> Position | None:
        name = stored.message.queue
        owner = queue if name == queue.name else self.store.queues[name]
        return owner.positions.get(stored.message.lookup_id)

    def available(self, queue: Queue) -> list[Position]:
        return [
            each
            for each in queue.walk(None)
            if each.state is State.AVAILABLE and self.state(each) != "delayed"
        ]

    def messages(self) -> Iterator[tuple[str, Any, Any]]:
        for name, queue in self.queues():
            expected = [self.stored(each) for each in self.available(queue)]
            for reverse in (False, True):
                found = self.pages(
                    lambda reverse=reverse, name=name, **how: self.qm.messages(
                        name, reverse=reverse, complete=True, **how
                    ),
                    self.rng.choice((1, 2, 3, 256)),
                )
                yield f"{name} {reverse}", expected[:: -1 if reverse else 1], self.rows(queue, found)
            if queue.positions:
                some = as_message(self.rng.choice(list(queue.positions.values())))
                found = self.pages(
                    lambda name=name, some=some, **how: self.qm.messages(
                        name, match=Match(message_id=some.message_id), complete=True, **how
                    ),
                    self.rng.choice((1, 2, 256)),
                )
                yield (
                    f"{name} {some.message_id!r}",
                    [
                        self.stored(each)
                        for each in self.available(queue)
                        if as_message(each).message_id == some.message_id
                    ],
                    self.rows(queue, found),
                )

    def scheduled(self) -> Iterator[tuple[str, Any, Any]]:
        for name, queue in self.queues():
            if ";" in name:
                continue
            retry = self.store.queues.get(f"{name};retry")
            all_of_them = [*queue.walk(None), *(retry.walk(None) if retry else ())]
            waiting = [each for each in all_of_them if self.state(each) in ("delayed", "retry")]
            found = self.pages(
                lambda name=name, **how: self.qm.scheduled(name, complete=True, **how),
                self.rng.choice((1, 2, 256)),
            )
            times = [each.due_at for each in found]
            yield f"{name}, order", sorted(times), times
            yield (
                name,
                sorted((self.stored(each) for each in waiting), key=repr),
                sorted(self.rows(queue, found), key=repr),
            )

    def single(self) -> Iterator[tuple[str, Any, Any]]:
        for name, queue in self.queues():
            for position in queue.walk(None):
                found = self.qm.message(name, position.lookup_id)
                yield f"{name} {position.lookup_id}", self.stored(position), self.shown(position, found)

    # ---- holders ---------------------------------------------------------------------------------

    def locks(self) -> Iterator[tuple[str, Any, Any]]:
        for name, queue in self.queues():
            held = {each.lookup_id: each for each in queue.walk(None) if each.state is not State.AVAILABLE}
            found = self.pages(
                lambda name=name, **how: self.qm.locks(name, **how), self.rng.choice((1, 2, 256))
            )
            ends = [each.lease_until for each in found]
            yield f"{name}, order", sorted(ends), ends
            yield f"{name}, ids", sorted(held), sorted(each.lookup_id for each in found)
            for lock in found:
                position = held.get(lock.lookup_id)
                if position is None:
                    continue
                stored, holder = position.stored, position.holder
                unit = holder if isinstance(holder, UnitOfWork) else None
                yield (
                    f"{name} {lock.lookup_id}",
                    (
                        stored.message_id, stored.out.label, self.kind(position),
                        position.state is State.PURGE_PENDING, unit and unit.id, "", False,
                        stored.deliveries, stored.deliveries - stored.uncounted,
                    ),
                    (
                        lock.message_id, lock.label, lock.kind, lock.purged, lock.transaction,
                        self.time(holder.deadline, lock.lease_until), lock.overdue, lock.deliveries, lock.attempts,
                    ),
                )  # fmt: skip

    def kind(self, position: Position) -> str:
        if not isinstance(position.holder, UnitOfWork):
            return "lock"
        if position.sending:
            return "sent"
        kinds = {op.kind for op in position.holder.operations if op.position is position}
        return "moved" if "move" in kinds else "received"

    def transactions(self) -> Iterator[tuple[str, Any, Any]]:
        found: dict[str, Any] = {}
        after = None
        while True:
            page = self.qm.transactions(after=after)
            found |= {each.id: each for each in page}
            after = page.next
            if after is None:
                break
        units = {name: unit for name, unit in self.store.units.items() if unit.open}
        yield "ids", sorted(units), sorted(found)
        for name in units.keys() & found.keys():
            unit, info = units[name], found[name]
            holds = Counter(
                (self.what(op), op.position.queue.name, op.position.lookup_id) for op in unit.operations
            )
            yield (
                name,
                (len(unit.operations), "", holds),
                (
                    info.operations,
                    self.time(unit.deadline, info.lease_until),
                    Counter((each.kind, each.queue, each.lookup_id) for each in info.holds),
                ),
            )

    def what(self, operation: Any) -> str:
        if operation.kind == "dequeue":
            return "rejected" if operation.reason is Reason.REJECTED else "received"
        return {"enqueue": "sent", "move": "moved"}[operation.kind]

    # ---- queues ----------------------------------------------------------------------------------

    def overview(self) -> Iterator[tuple[str, Any, Any]]:
        found = {each.name: each for each in self.qm.overview()}
        names = [n for n in self.store.queues if n.startswith("system$;") or not kept_by_broker(n)]
        yield "names", sorted(names), sorted(found)
        for name in names:
            queue, row = self.store.queues[name], found[name]
            states = Counter(self.state(each) for each in queue.walk(None))
            beside = {
                part: len(below.positions) if (below := self.store.queues.get(f"{name};{part}")) else 0
                for part in ("retry", "poison", "journal")
            }
            expected = {
                "ready": states["ready"],
                "delayed": states["delayed"] + beside["retry"],
                "locked": states["locked"],
                "claimed": 0,
                "poison": beside["poison"],
                "journal": beside["journal"],
                "waiters": 0,
                "transactional": queue.properties.transactional,
                "topic": queue.properties.topic,
                "put_inhibited": queue.properties.put_inhibited,
                "get_inhibited": queue.properties.get_inhibited,
            }
            yield name, expected, row.model_dump(include=set(expected))


def difference(qm: Any, store: Store, seed: object) -> str:
    """The first view that shows something else than the model; "" if all agree."""
    for name, expected, shown in Views(qm, store, random.Random(str(seed))).differences():
        return f"{name}: expected {expected!r:.600}, shown {shown!r:.600}"
    return ""
