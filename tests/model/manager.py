"""One client of a model queue manager, with the face of the product."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, Self

from pydantic import ValidationError

from mqredis.errors import (
    AccessDenied,
    InvalidArgument,
    InvalidHandle,
    InvalidName,
    QueueExists,
    QueueNotFound,
    SharingViolation,
    TransactionSequence,
    UnsupportedAccess,
)
from mqredis.keys import MAX_SUBQUEUE, check_name
from mqredis.models import Access, ManagerInfo, QueueInfo, QueueProperties, Share
from mqredis.settings import Settings
from tests.model.adm import Queue, State, UnitOfWork, size, violates
from tests.model.handles import ModelQueue
from tests.model.store import Store
from tests.model.units import ModelTransaction

_STORES: dict[str, Store] = {}
_NUMBERS = itertools.count(1)


def connect(
    url: str | None = None, *, manager: str = "default", settings: Settings | None = None
) -> ModelManager:
    """A client of the model manager of this name; it is made when it is new."""
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
    """The face of ``mqredis.QueueManager`` over a :class:`~tests.model.store.Store`."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.handles: list[ModelQueue] = []
        self.closed = False

    @contextmanager
    def step(self, check: Callable[[], None] | None = None) -> Iterator[Store]:
        """One atomic step: serve what is due, check, act."""
        with self.store.changed:
            if self.closed:
                raise InvalidHandle()
            self.store.serve()
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
            if new.transactional != queue.own.transactional:
                raise InvalidArgument()
            queue.own = new
            queue.modified = store.now()
            return self._info(queue)

    def delete_queue(self, name: str) -> None:
        with self.step() as store:
            store.delete(self._find(name))

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
    ) -> ModelQueue:
        """Open Queue (3.1.7.1.5); a subqueue comes to be when it is first opened."""
        with self.step() as store:
            main, _, sub = name.partition(";")
            if sub:
                check_name(sub, "subqueue", MAX_SUBQUEUE)
                if access is Access.SEND:
                    raise AccessDenied()
            elif name != main:
                raise InvalidName("a subqueue has a name")
            if share is Share.DENY_RECEIVE and access is Access.SEND:
                raise UnsupportedAccess()
            queue = self._find(main)
            if sub:
                queue = store.queues.setdefault(name, Queue(store, name, queue.own, queue))
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
        waiting = [p for p in positions if p.state is State.AVAILABLE and p.stored.due > self.store.now()]
        ready = sum(p.state is State.AVAILABLE for p in positions) - len(waiting)
        return QueueInfo(
            **queue.properties.model_dump(),
            name=queue.name,
            created_at=self.store.instant(queue.created),
            modified_at=self.store.instant(queue.modified),
            ready=ready,
            delayed=len(waiting),
            locked=len(positions) - ready - len(waiting),
            messages=len(positions),
            bytes=sum(size(p.stored.out) for p in positions),
            active=bool(queue.handles),
            waiters=len(queue.waiters),
        )

    # ---- transactions and the manager's own -------------------------------------------------------------

    def transaction(self, *, id: str | None = None, lease: float | None = None) -> ModelTransaction:  # noqa: A002
        """Create Transaction (3.1.7.1.8); an id that is in use is refused (MQMP 3.1.4.14)."""
        if lease is not None and not (math.isfinite(lease) and lease > 0):
            raise InvalidArgument("a lease is longer than 0 seconds")
        with self.step() as store:
            name = id if id is not None else f"model-{next(_NUMBERS)}"
            if name in store.units:
                raise TransactionSequence()
            unit = store.units[name] = UnitOfWork(name, store.now() + self.lease(lease))
            return ModelTransaction(self, unit)

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
                schema_version=1,
                throttled=store.throttled,
                quota_bytes=store.quota_bytes,
                quota_messages=store.quota_messages,
                messages=len(held),
                bytes=sum(size(p.stored.out) for p in held),
                queues=len(store.queues),
                sessions=1,
                transactions=len(store.units),
            )

    def advance_clock(self, seconds: float) -> None:
        if not self.settings.test_clock:
            raise InvalidArgument("the clock can only be moved in a test manager")
        with self.step() as store:
            store.clock += seconds
            store.serve()

    def maintain(self) -> None:
        with self.step():
            pass

    def close(self) -> None:
        """Closes the handles; what a client leaves locked comes back when its lease lapses."""
        if self.closed:
            return
        for handle in self.handles:
            handle.close()
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
