"""Reads of the model: the first matching message in delivery order, groups, browsers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from mqredis.errors import TransactionUsage
from mqredis.models import Grouping, Match, Message, Outgoing, Sent
from tests.model import matching
from tests.model.adm import Position, Queue, UnitOfWork
from tests.model.browsing import ModelBrowser
from tests.model.units import ModelHeld, ModelLocked

if TYPE_CHECKING:
    from tests.model.handles import ModelQueue
    from tests.model.manager import ModelManager


class Reads:
    """The read methods of a handle of the model."""

    manager: ModelManager
    queue: Queue
    selector: str | None
    getting: matching.Logical
    _reading: Any
    unit: Any
    take: Any
    take_all: Any
    wait: Any
    as_peeked: Any
    send_many: Any

    # ---- reading in order -------------------------------------------------------------------------------

    def receive(
        self,
        timeout: float | None = None,
        *,
        transaction: Any = None,
        tag: Any = None,
        match: Match | None = None,
        selector: str | None = None,
        grouping: Grouping = Grouping.NONE,
    ) -> Message:
        """Dequeue Message (3.1.7.1.10)."""
        wanted = self.wanted(match, selector, grouping, taking=True)
        self.getting.enter(wanted, transaction)
        with self._reading("receive", transaction):
            return self._dequeue(wanted, timeout, transaction=transaction, tag=tag)

    def receive_many(
        self,
        max: int,  # noqa: A002
        timeout: float | None = None,
        *,
        transaction: Any = None,
        match: Match | None = None,
        selector: str | None = None,
    ) -> list[Message]:
        wanted = self.wanted(match, selector, taking=True)
        with self._reading("receive", transaction):
            unit = self.unit(transaction)
            found = matching.search(self.queue, wanted, max)
            if not found:
                return [self.wait(timeout, destructive=True, unit=unit)]
            return list(self.take_all([p for p, *_ in found], unit))

    def receive_group(
        self,
        timeout: float | None = None,
        *,
        transaction: Any = None,
        match: Match | None = None,
        selector: str | None = None,
    ) -> list[Message]:
        """A whole group in one step; its logical messages."""
        wanted = self.wanted(match, selector, taking=True, whole=True)
        with self._reading("receive", transaction):
            unit = self.unit(transaction)
            found = matching.search(self.queue, wanted)
            if not found:
                return [self.wait(timeout, destructive=True, unit=unit)]
            parts: dict[int, list[Message]] = {}
            for message in self.take_all(found[0], unit):
                parts.setdefault(message.sequence, []).append(message)
            return [matching.one_message(part) for part in parts.values()]

    def lock(
        self,
        timeout: float | None = None,
        *,
        lease: float | None = None,
        tag: Any = None,
        match: Match | None = None,
        selector: str | None = None,
        grouping: Grouping = Grouping.NONE,
        transaction: Any = None,
    ) -> ModelLocked | ModelHeld:
        """Dequeue Message Begin (3.1.7.1.11)."""
        if transaction is not None:
            how = {"tag": tag, "match": match, "selector": selector, "grouping": grouping}
            return ModelHeld(self, self.receive(timeout, transaction=transaction, **how), transaction)
        wanted = self.wanted(match, selector, grouping, taking=True)
        self.getting.enter(wanted, None)
        with self._reading("receive"):
            return self._dequeue(wanted, timeout, tag=tag, two_phase=True, lease=self.manager.lease(lease))

    def lock_many(
        self,
        max: int,  # noqa: A002
        timeout: float | None = None,
        *,
        lease: float | None = None,
        settle: Iterable[ModelLocked] = (),
        match: Match | None = None,
        selector: str | None = None,
    ) -> list[ModelLocked]:
        wanted = self.wanted(match, selector, taking=True)
        for earlier in settle:
            earlier.commit()
        with self._reading("receive"):
            how = {"two_phase": True, "lease": self.manager.lease(lease)}
            found = matching.search(self.queue, wanted, max)
            if not found:
                return [self.wait(timeout, destructive=True, **how)]
            return list(self.take_all([p for p, *_ in found], None, **how))

    def peek(
        self,
        timeout: float | None = None,
        *,
        match: Match | None = None,
        selector: str | None = None,
        transaction: Any = None,
    ) -> Message:
        """Peek Message (3.1.7.1.15); only a peek of anything sees what is locked but visible."""
        wanted = self.wanted(match, selector)
        with self._reading("peek"):
            if transaction is not None:
                raise TransactionUsage()
            if wanted.plain:
                found = self.queue.seek(None, peek=True)
            else:
                found = next((p for p, *_ in matching.search(self.queue, wanted)), None)
            return self.as_peeked(found) if found else self.wait(timeout, destructive=False)

    def browse(self, *, match: Match | None = None, selector: str | None = None) -> Iterator[Message]:
        """Every available message in order; one that is locked but visible to peeks is not listed."""
        wanted = self.wanted(match, selector)
        while True:
            with self._reading("peek"):
                found = matching.search(self.queue, wanted)
                if not found:
                    return
                wanted.after = found[0][0].lookup_id
                message = self.as_peeked(found[0][0])
            yield message

    def wanted(
        self, match: Match | None, selector: str | None, grouping: Grouping = Grouping.NONE, **how: Any
    ) -> matching.Wanted:
        chosen = matching.selectors(self.selector, selector)
        return matching.Wanted(match, chosen, grouping, **how)

    def _dequeue(
        self, wanted: matching.Wanted, timeout: float | None, *, transaction: Any = None, **how: Any
    ) -> Any:
        unit = self.unit(transaction)
        found = matching.search(self.queue, wanted)
        if not found:
            return self.wait(timeout, destructive=True, unit=unit, **how)
        how.pop("tag", None)
        return self.get(found[0], wanted, unit, transaction, **how)

    def get(
        self,
        found: list[Position],
        wanted: matching.Wanted,
        unit: UnitOfWork | None,
        transaction: Any,
        **how: Any,
    ) -> Any:
        """Take the messages that are read together, and record the position of the handle in its group."""
        taken = self.take_all(found, unit, **how)
        if isinstance(taken[0], ModelLocked):
            lock: ModelLocked = taken[0]
            lock.parts = taken[1:]
            messages = [part.message for part in taken]
            reader: object = lock
        else:
            messages, reader = taken, transaction
        whole = messages[0]
        if Grouping.COMPLETE_MESSAGE in wanted.grouping:
            whole = matching.one_message(messages)
        if Grouping.LOGICAL_ORDER in wanted.grouping:
            self.getting.advance(wanted, found, unit, reader)
            if transaction is not None:
                transaction.readers.append(self.getting)
        if isinstance(taken[0], ModelLocked):
            taken[0].message = whole
            return taken[0]
        return whole

    def send_group(
        self,
        items: Iterable[Outgoing],
        *,
        group_id: Any,
        segment_bytes: int | None = None,
        transaction: Any = None,
    ) -> list[Sent]:
        """A group, its larger messages in segments."""
        logical, outs = list(items), []
        for sequence, message in enumerate(logical, 1):
            body = message.body
            step = segment_bytes if segment_bytes and len(body) > segment_bytes else None
            for at in range(0, len(body), step) if step else [0]:
                place = {"group_id": group_id, "sequence": sequence, "offset": at if step else None}
                place |= {"segment": step is not None, "last_in_group": sequence == len(logical)}
                place["last_segment"] = step is not None and at + step >= len(body)
                part = body[at : at + step] if step else body
                outs.append(message.replace(**place, body=part))
        return self.send_many(outs, transaction=transaction)

    def browser(self, **how: Any) -> ModelBrowser:
        """A browse cursor with IBM MQ's rules."""
        return ModelBrowser(cast("ModelQueue", self), **how)
