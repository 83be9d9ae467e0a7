"""What a client of a schedule may do: one script call each, and what its answer means for the ledger.

A step is built when its turn comes, from what its client knows then; ``None``: there is nothing to do for it.
``learn`` is called once, when the broker carried the call out; ``told`` when the client gets the answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mqredis import codec
from mqredis.commands import contents, manager, queues, read, send, settlement, transactions
from mqredis.commands.arguments import Mode
from mqredis.models import Outgoing, QueueProperties
from mqredis.models.lookup_ids import split_ids
from mqredis.status import Status
from mqredis.steps import Call
from tests.reliability.wire import Answer, Refusal
from tests.reliability.world import Broken, Client, World

LEASE = 60_000


class Step(ABC):
    """One call of a client."""

    @abstractmethod
    def call(self, world: World, me: Client) -> Call[Any] | None:
        """Return the call to make, None if there is nothing to do."""

    def learn(self, world: World, me: Client, answer: Answer) -> None:  # noqa: B027 - nothing to learn from some
        """Record the effect on the broker."""

    def enter(self, world: World, me: Client, call: Call[Any], answer: Answer) -> None:
        """Run a step, and return its call, too."""
        self.learn(world, me, answer)

    def told(self, world: World, me: Client, answer: Answer) -> None:  # noqa: B027
        """Record what the client knows."""


def settle(world: World, call: Call[Any], answer: Answer, at: int) -> None:
    """Which settlements were accepted: ``at``, where they stand in the call's arguments, and what was not lost."""
    if answer.refused:
        return
    lost = {lid for lid, _ in answer.value.lost}
    words = [str(arg) for arg in call.args[at:]]
    for action, fence, ids in zip(words[::3], words[1::3], words[2::3], strict=True):
        for lid in (ids[k : k + 16] for k in range(0, len(ids), 16)):
            if lid not in lost:
                world.ledger.settled(action, fence, lid, answer.value.now_ms + LEASE)


@dataclass
class Create(Step):
    queue: str
    transactional: bool = False
    quota: int | None = None
    retried: bool = False

    def call(self, world: World, me: Client) -> Call[Any] | None:
        values = QueueProperties(transactional=self.transactional, quota_messages=self.quota)
        return queues.create(world.keys, self.queue, values.model_dump())

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        if not answer.refused:
            world.address(self.queue).generation = answer.value
            if self.quota is not None:
                world.ledger.quota[self.queue] = self.quota


@dataclass
class OpenSub(Step):
    """Open a subqueue, which creates it."""

    path: str

    def call(self, world: World, me: Client) -> Call[Any] | None:
        family = world.address(self.path).family
        return queues.open_handle(world.keys, family, f"{me.name}{self.path}", "all", "none")

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        if not answer.refused:
            world.address(self.path).generation = answer.value.generation


@dataclass
class CloseSub(Step):
    path: str

    def call(self, world: World, me: Client) -> Call[Any] | None:
        return queues.close_handle(world.keys, world.address(self.path).family, f"{me.name}{self.path}")


@dataclass
class Send(Step):
    queue: str
    labels: Sequence[str]
    unit: str = ""
    life: int | None = None
    large: bool = False
    lease: int = LEASE

    def call(self, world: World, me: Client) -> Call[Any] | None:
        body = b"x" * (5000 if self.large else 5)
        message = Outgoing(body=body, time_to_be_received=self.life and self.life / 1000)
        items = [codec.encode(message, self.unit) for _ in self.labels]
        grant = _grant(me, self.unit, self.lease)
        return send.send(world.address(self.queue), items, self.unit, grant)

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        if isinstance(answer.value, Refusal):
            if answer.value.status == Status.ENQUEUE_QUEUE_QUOTA:
                world.ledger.full(self.queue, len(self.labels))
            return
        unit = world.ledger.unit(self.unit, answer.value.fence).name if self.unit else ""
        for lid, label in zip(split_ids(answer.value.ids), self.labels, strict=True):
            world.ledger.sent(lid, self.queue, label, unit, self.life is not None)

    def told(self, world: World, me: Client, answer: Answer) -> None:
        if self.unit and not answer.refused:
            me.fences[self.unit] = answer.value.fence


@dataclass
class Take(Step):
    """Read from the front: destructively, under a lock, or in a transaction."""

    queue: str
    mode: Mode = "take"
    unit: str = ""
    count: int = 1
    lease: int = LEASE
    settle: str = ""

    def call(self, world: World, me: Client) -> Call[Any] | None:
        grant = str(self.lease) if self.mode == "lock" else _grant(me, self.unit, self.lease)
        settlements = [(self.settle, fence, lid) for fence, lid in me.locks] if self.settle else []
        if self.settle:
            me.locks = []
        address = world.address(self.queue)
        return read.receive(
            address, self.mode, self.count, owner=self.unit, grant=grant, settle=settlement.runs(settlements)
        )

    def enter(self, world: World, me: Client, call: Call[Any], answer: Answer) -> None:
        settle(world, call, answer, 9)
        found = answer.value
        if isinstance(found, Refusal):
            return
        for number, (raw_id, _state, _record) in enumerate(found.messages):
            lid = raw_id.decode()
            if self.mode == "take":
                world.ledger.take(lid, found.now_ms)
            elif self.mode == "lock":
                world.ledger.hold(lid, found.fence, found.deadline, found.now_ms)
            else:
                unit = world.ledger.unit(self.unit, found.fence)
                world.ledger.hold(lid, unit.name, found.deadline, found.now_ms)
                unit.received.append(lid)
            if number and lid <= found.messages[number - 1][0].decode():
                raise Broken("messages came out of order")

    def told(self, world: World, me: Client, answer: Answer) -> None:
        found = answer.value
        if isinstance(found, Refusal) or not found.messages:
            return
        if self.mode == "lock":
            me.locks += [(found.fence, raw_id.decode()) for raw_id, _, _ in found.messages]
        elif self.unit:
            me.fences[self.unit] = found.fence


@dataclass
class Lookup(Step):
    """Take one particular message, by its label."""

    queue: str
    label: str
    mode: Mode = "take"

    def call(self, world: World, me: Client) -> Call[Any] | None:
        lid = world.ledger.names.get(self.label)
        return None if lid is None else read.lookup(world.address(self.queue), self.mode, "current", lid)

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        if not answer.refused and self.mode == "take":
            world.ledger.take(answer.value.messages[0][0].decode(), answer.value.now_ms)


@dataclass
class Settle(Step):
    """End the locks that the client believes to have: c commit, a abort, j reject, x extend."""

    queue: str
    action: str

    def call(self, world: World, me: Client) -> Call[Any] | None:
        if not me.locks:
            return None
        settlements = [(self.action, fence, lid) for fence, lid in me.locks]
        if self.action != "x":
            me.locks = []
        return settlement.settle(world.address(self.queue), settlements, LEASE)

    def enter(self, world: World, me: Client, call: Call[Any], answer: Answer) -> None:
        settle(world, call, answer, 2)


@dataclass
class Begin(Step):
    unit: str
    lease: int = LEASE

    def call(self, world: World, me: Client) -> Call[Any] | None:
        return transactions.begin(world.keys, self.unit, self.lease)

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        if not answer.refused:
            world.ledger.unit(self.unit, answer.value.fence)

    def told(self, world: World, me: Client, answer: Answer) -> None:
        if not answer.refused:
            me.fences[self.unit] = answer.value.fence


@dataclass
class End(Step):
    """Commit, abort or prepare a transaction; ``share``: with the fence that another client was told."""

    unit: str
    outcome: str
    queues: tuple[str, ...] = ()
    share: str = ""

    def call(self, world: World, me: Client) -> Call[Any] | None:
        fence = (world.clients[self.share] if self.share else me).fences.get(self.unit)
        if fence is None:
            return None
        paths = (*self.queues, *(path for path in me.missing if path not in self.queues))
        return transactions.end(world.keys, self.unit, fence, self.outcome, paths)

    def enter(self, world: World, me: Client, call: Call[Any], answer: Answer) -> None:
        """What ended, by the fence that the call named."""
        unit = world.ledger.unit(self.unit, str(call.args[1]))
        if answer.refused:
            if not unit.ended:
                world.ledger.end(unit.name, "abort")  # its lease was over
        elif not answer.value and self.outcome != "prepare":
            world.ledger.end(unit.name, self.outcome)

    def told(self, world: World, me: Client, answer: Answer) -> None:
        if not answer.refused:
            me.missing = tuple(answer.value)


@dataclass
class Renew(Step):
    unit: str

    def call(self, world: World, me: Client) -> Call[Any] | None:
        fence = me.fences.get(self.unit)
        return None if fence is None else transactions.renew(world.keys, self.unit, fence, LEASE)

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        if not answer.refused:
            unit = world.ledger.unit(self.unit, me.fences[self.unit])
            if unit.ended:
                raise Broken("a lease was renewed after the transaction had ended")
            for lid, (by, _) in list(world.ledger.held.items()):
                if by == unit.name:
                    world.ledger.held[lid] = (by, int(answer.raw[3]))


@dataclass
class Move(Step):
    source: str
    target: str
    label: str
    unit: str = ""

    def call(self, world: World, me: Client) -> Call[Any] | None:
        lid = world.ledger.names.get(self.label)
        if lid is None:
            return None
        grant = _grant(me, self.unit, LEASE)
        return contents.move(world.address(self.source), world.address(self.target), lid, self.unit, grant)

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        if answer.refused:
            return
        lid, ledger = world.ledger.names[self.label], world.ledger
        if ledger.state[lid] != "present" or lid in ledger.held:
            raise Broken(f"{self.label} was moved although it is {ledger.state[lid]}")
        if not self.unit:
            ledger.queue[lid] = self.target
            return
        unit = ledger.unit(self.unit, answer.value)
        ledger.held[lid] = (unit.name, 1 << 60)
        unit.moved[lid] = self.target

    def told(self, world: World, me: Client, answer: Answer) -> None:
        if self.unit and not answer.refused:
            me.fences[self.unit] = answer.value


@dataclass
class Purge(Step):
    queue: str

    def call(self, world: World, me: Client) -> Call[Any] | None:
        return contents.purge(world.address(self.queue))

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        if not answer.refused:
            lapsed = len(world.ledger.held)
            world.ledger.purge(self.queue, answer.value[0], lapsed)


@dataclass
class Delete(Step):
    queue: str
    subqueues: tuple[str, ...] = ()

    def call(self, world: World, me: Client) -> Call[Any] | None:
        return queues.delete(world.keys, [self.queue, *self.subqueues, *me.missing], ())

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        if not answer.refused and answer.value.done:
            for path in (self.queue, *self.subqueues, *me.missing):
                world.ledger.delete(path)

    def told(self, world: World, me: Client, answer: Answer) -> None:
        if not answer.refused:
            me.missing = tuple(answer.value.missing)


@dataclass
class Maintain(Step):
    queue: str

    def call(self, world: World, me: Client) -> Call[Any] | None:
        return manager.maintain(world.address(self.queue))


@dataclass
class Clock(Step):
    """Advance the clock."""

    ms: int

    def call(self, world: World, me: Client) -> Call[Any] | None:
        return manager.update(world.keys, "clock", str(self.ms))

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        if not answer.refused:
            world.clock_ms += self.ms


def _grant(me: Client, unit: str, lease: int) -> str:
    return me.fences.get(unit, f"+{lease}") if unit else ""
