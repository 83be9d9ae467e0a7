"""One client of a model queue manager, with the public interface."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, Self

from pydantic import ValidationError

from mqredis.errors import (
    GetInhibited,
    InvalidArgument,
    InvalidHandle,
    InvalidName,
    QueueExists,
    QueueNotFound,
    SharingViolation,
    TransactionSequence,
    UnsupportedAccess,
)
from mqredis.keys import DEAD_LETTER, MAX_SUBQUEUE, SYSTEM, check_name, is_journal_or_system, kept_by_broker
from mqredis.models import (
    Access,
    ManagerInfo,
    Match,
    Message,
    QueueInfo,
    QueueProperties,
    QueueStatistics,
    Share,
)
from mqredis.settings import Settings
from mqredis.status import Status
from tests.model import matching, redrive, timers, topics
from tests.model.adm import ALLOWS, Queue, State, UnitOfWork, as_message, violates
from tests.model.handles import ModelQueue
from tests.model.several import ModelSeveral
from tests.model.statistics import statistics
from tests.model.store import Store
from tests.model.units import ModelTransaction

_STORES: dict[str, Store] = {}
_NUMBERS = itertools.count(1)


def connect(
    url: str | None = None, *, manager: str = "default", settings: Settings | None = None
) -> ModelManager:
    """Return a client of the model manager of this name, which is created if it does not exist."""
    store = _STORES.setdefault(manager, Store(manager))
    return ModelManager(store, settings or Settings())


def forget(manager: str) -> None:
    """Drop a model manager with everything in it."""
    _STORES.pop(manager, None)


def checked(given: dict[str, Any]) -> QueueProperties:
    try:
        return QueueProperties(**given)
    except ValidationError as error:
        raise InvalidArgument(str(error)) from None


class ModelManager:
    """The interface of ``mqredis.QueueManager`` over a :class:`~tests.model.store.Store`."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.handles: list[ModelQueue] = []
        self.transactions: list[ModelTransaction] = []
        self.closed = False

    @contextmanager
    def step(self, check: Callable[[], None] | None = None) -> Iterator[Store]:
        """One atomic step: serve due timers, check, act."""
        with self.store.changed:
            if self.closed:
                raise InvalidHandle()
            timers.serve(self.store)
            if check is not None:
                check()
            yield self.store

    def lease(self, seconds: float | None) -> float:
        return self.settings.lease_seconds if seconds is None else seconds

    # ---- queues -----------------------------------------------------------------------------------------

    def create_queue(self, name: str, **properties: Any) -> QueueInfo:
        name = check_name(name)
        props = checked(properties)
        with self.step() as store:
            if name in store.queues:
                raise QueueExists()
            store.queues[name] = Queue(store, name, props)
            return self._info(store.queues[name])

    def queue_info(self, name: str) -> QueueInfo:
        with self.step():
            return self._info(self._find(name))

    def update_queue(self, name: str, **changes: Any) -> QueueInfo:
        with self.step() as store:
            queue = self._find(name)
            new = checked(queue.own.model_dump() | changes)
            if changes.keys() & {"transactional", "group_exclusive", "topic"}:
                raise InvalidArgument()
            queue.own = new
            family = [each for each in store.queues.values() if each.main is queue]
            for waiter in [w for each in family for w in each.waiters] if new.get_inhibited else ():
                store.end_wait(waiter, GetInhibited())
            queue.modified = store.now()
            return self._info(queue)

    def delete_queue(self, name: str) -> int:
        with self.step() as store:
            return store.delete(self._find(name))

    def queues(self, pattern: str | None = None) -> list[QueueInfo]:
        with self.step() as store:
            found = sorted(store.queues.items())
            return [self._info(q) for n, q in found if pattern is None or fnmatchcase(n, pattern)]

    def open(
        self,
        name: str,
        access: Access = Access.ALL,
        share: Share = Share.DENY_NONE,
        *,
        selector: str | None = None,
    ) -> Any:
        """Open Queue (3.1.7.1.5); a subqueue is created when it is first opened."""
        if "," in name:
            if access is not Access.SEND:
                raise UnsupportedAccess()
            if share is not Share.DENY_NONE:
                raise UnsupportedAccess(status=Status.UNSUPPORTED_ACCESS_MODE)
            parts = sorted({part.strip() for part in name.split(",")}, key=str.lower)
            elements = [self.open(part, access, share) for part in parts]
            return ModelSeveral(elements) if len(elements) > 1 else elements[0]
        with self.step() as store:
            main, _, sub = name.partition(";")
            if sub:
                check_name(sub, "subqueue", MAX_SUBQUEUE)
                if access is Access.SEND:
                    raise UnsupportedAccess()
            elif name != main:
                raise InvalidName("a subqueue has a name")
            if share is Share.DENY_RECEIVE and access is Access.SEND:
                raise UnsupportedAccess(status=Status.UNSUPPORTED_ACCESS_MODE)
            if is_journal_or_system(name):
                if access is Access.MOVE:
                    raise UnsupportedAccess()
                if main != SYSTEM:
                    self._find(main)
                queue = store.find(name, make=True)
            else:
                queue = self._find(main)
                if sub:
                    queue = store.queues.setdefault(name, Queue(store, name, queue.own, queue))
            assert queue is not None
            if any(violates(h.access, h.share, access, share) for h in queue.handles):
                raise SharingViolation()
            self.handles.append(ModelQueue(self, queue, access, share, selector))
            return self.handles[-1]

    def _find(self, name: str) -> Queue:
        main, _, _sub = name.partition(";")
        check_name(main)
        queue = self.store.queues.get(name)
        if queue is None:
            raise QueueNotFound()
        return queue

    def _info(self, queue: Queue) -> QueueInfo:
        positions = list(queue.positions.values())
        waiting = [p for p in positions if p.state is State.AVAILABLE and not p.ready]
        ready = sum(p.state is State.AVAILABLE for p in positions) - len(waiting)
        locked = len(positions) - ready - len(waiting)
        if queue.parent is None:  # what rests between two attempts returns to it
            below = (self.store.queues.get(f"{queue.name};{part}") for part in ("retry", "lapsed"))
            resting = [p for q in below if q is not None for p in q.positions.values()]
            positions, waiting = positions + resting, waiting + resting
        return QueueInfo(
            **queue.properties.model_dump(),
            name=queue.name,
            created_at=self.store.instant(queue.created),
            modified_at=self.store.instant(queue.modified),
            ready=ready,
            delayed=len(waiting),
            locked=locked,
            messages=len(positions),
            bytes=sum(p.stored.size for p in positions),
            active=bool(queue.handles),
            receivers=sum("receive" in ALLOWS[handle.access] for handle in queue.handles),
            waiters=len(queue.waiters),
        )

    def statistics(self, name: str) -> QueueStatistics:
        with self.step() as store:
            return statistics(store, self._find(name))

    # ---- topics and redrive -----------------------------------------------------------------------------

    def subscribe(self, topic: str, queue: str, selector: str | None = None) -> None:
        if topic == queue:
            raise InvalidArgument()
        with self.step() as store:
            topics.subscribe(store, topic, queue, selector)

    def unsubscribe(self, topic: str, queue: str) -> None:
        with self.step() as store:
            topics.unsubscribe(store, topic, queue)

    def redrive(
        self,
        source: str = DEAD_LETTER,
        *,
        where: Callable[[Message], bool] | None = None,
        match: Match | None = None,
        selector: str | None = None,
        to: str | None = None,
        limit: int | None = None,
    ) -> int:
        handle: ModelQueue = self.open(source, Access.RECEIVE)
        handle.usable("receive", reading=True)
        wanted = handle.wanted(match, selector)
        with self.step() as store, handle:
            chosen = {position for position, *_ in matching.search(handle.queue, wanted, 1 << 30)}
            return redrive.redrive(
                store,
                handle.queue,
                lambda p: p in chosen and (where is None or where(as_message(p))),
                to,
                limit,
            )

    # ---- transactions and the manager's own -------------------------------------------------------------

    def transaction(self, *, id: str | None = None, lease: float | None = None) -> ModelTransaction:  # noqa: A002
        """Create Transaction (3.1.7.1.8); an id that is in use is refused (MQMP 3.1.4.14)."""
        if lease is not None and not (math.isfinite(lease) and lease > 0):
            raise InvalidArgument("a lease is longer than 0 seconds")
        if id is not None and re.fullmatch(r"t[0-9]+\.[0-9]+", id):
            raise InvalidArgument("such ids are made")
        with self.step() as store:
            name = id if id is not None else f"t0.{next(_NUMBERS)}"
            if name in store.units:
                raise TransactionSequence()
            unit = store.units[name] = UnitOfWork(name, store.now() + self.lease(lease))
            self.transactions.append(ModelTransaction(self, unit))
            return self.transactions[-1]

    def throttle(self, on: bool) -> None:
        with self.step() as store:
            store.throttled = on

    def set_quota(self, messages: int | None = None, bytes: int | None = None) -> None:  # noqa: A002
        with self.step() as store:
            store.quota_messages, store.quota_bytes = messages, bytes

    def info(self) -> ManagerInfo:
        with self.step() as store:
            held = [p for q in store.queues.values() for p in q.positions.values()]
            return ManagerInfo(
                name=store.name,
                incarnation="model",
                history=0,
                schema_version=4,
                throttled=store.throttled,
                quota_bytes=store.quota_bytes,
                quota_messages=store.quota_messages,
                messages=len(held),
                bytes=sum(p.stored.size for p in held),
                queues=len(store.queues),
                sessions=1,
                transactions=len(store.units),
            )

    def advance_clock(self, seconds: float) -> None:
        if not self.settings.test_clock:
            raise InvalidArgument("the clock can only be moved in a test manager")
        with self.step() as store:
            store.clock += seconds
            timers.serve(store)

    def maintain(self) -> None:
        """Every step serves due timers; this also removes subqueues that are empty and not open."""
        with self.step() as store:
            for queue in list(store.queues.values()):
                if not kept_by_broker(queue.name):
                    store.forget_subqueue(queue)

    def close(self) -> None:
        """Aborts what is open and closes the handles, which gives back what is locked."""
        if self.closed:
            return
        for transaction in self.transactions:
            if transaction.unit.open:
                transaction.abort()
        for handle in self.handles:
            handle.close()
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
