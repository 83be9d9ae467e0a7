"""More steps of a schedule: messages with policies, reads by id, waiting, topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mqredis import codec
from mqredis.commands import features, filters, queues, read, send, waiting
from mqredis.commands.arguments import Mode
from mqredis.commands.waiting import Waiter
from mqredis.models import Match, Outgoing, QueueProperties
from mqredis.status import Status
from mqredis.steps import Call
from tests.reliability.moves import LEASE, Send, Step, Take
from tests.reliability.wire import Answer, Refusal
from tests.reliability.world import Broken, Client, World


@dataclass
class CreateWith(Step):
    """A queue with these properties; ``beside``: queues that the broker keeps, which every call on it brings."""

    queue: str
    properties: dict[str, Any] = field(default_factory=dict)

    def call(self, world: World, me: Client) -> Call[Any] | None:
        made = QueueProperties(**self.properties)
        return queues.create(
            world.keys, self.queue, {name: getattr(made, name) for name in QueueProperties.model_fields}
        )

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        if not answer.refused:
            world.address(self.queue).generation = answer.value


@dataclass
class Beside(Step):
    """Create the queues that the broker keeps beside this one; every call on it names them from now on."""

    queue: str
    paths: tuple[str, ...]

    def call(self, world: World, me: Client) -> Call[Any] | None:
        return queues.ensure(world.keys, self.paths)

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        world.address(self.queue).bring(self.paths)


@dataclass
class SendWith(Send):
    """Send messages with policies: ``fields`` are those of Outgoing."""

    fields: dict[str, Any] = field(default_factory=dict)

    def call(self, world: World, me: Client) -> Call[Any] | None:
        message = Outgoing(body=b"x", time_to_be_received=self.life and self.life / 1000, **self.fields)
        items = [codec.encode(message, self.unit) for _ in self.labels]
        grant = me.fences.get(self.unit, f"+{self.lease}") if self.unit else ""
        return send.send(world.address(self.queue), items, self.unit, grant)


@dataclass
class SendOnce(SendWith):
    """With a dedup key: refused while another message has it, and never otherwise."""

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        sure, maybe = world.ledger.alive(self.queue, sure=True), world.ledger.alive(self.queue)
        if isinstance(answer.value, Refusal) and answer.value.status == Status.DUPLICATE:
            if not maybe:
                raise Broken("a message was refused as a duplicate of none")
        elif not answer.refused and sure:
            raise Broken(f"a duplicate of {sure} was accepted")
        super().learn(world, me, answer)


@dataclass
class TakeMatch(Take):
    """Read the first message with this correlation id."""

    correlation: str = ""

    def call(self, world: World, me: Client) -> Call[Any] | None:
        match = filters.single(Match(correlation_id=self.correlation))
        assert match is not None
        grant = str(self.lease) if self.mode == "lock" else ""
        return read.receive(world.address(self.queue), self.mode, self.count, grant=grant, match=match)


@dataclass
class Await(Take):
    """Take a message, or register as a waiting reader; the next fetch of the same client sends its ticket."""

    member = "D p0 -"

    def call(self, world: World, me: Client) -> Call[Any] | None:
        grant = str(self.lease) if self.mode == "lock" else ""
        waiter = Waiter(self.member, me.ticket)
        return read.receive(world.address(self.queue), self.mode, self.count, grant=grant, waiter=waiter)

    def told(self, world: World, me: Client, answer: Answer) -> None:
        if not answer.refused:
            me.ticket = "" if answer.value.messages else answer.value.ticket


@dataclass
class AwaitLock(Await):
    """Lock a message, or register as a reader for a direct handoff."""

    mode: Mode = "lock"

    member = f"D p0 -,{LEASE}"


@dataclass
class Leave(Step):
    """End a wait for a lock."""

    queue: str

    def call(self, world: World, me: Client) -> Call[Any] | None:
        return waiting.leave(world.address(self.queue), AwaitLock.member) if me.ticket else None

    def told(self, world: World, me: Client, answer: Answer) -> None:
        me.ticket = ""


@dataclass
class Subscribe(Step):
    """Subscribe a queue to a topic, or end that."""

    topic: str
    queue: str
    on: bool = True

    def call(self, world: World, me: Client) -> Call[Any] | None:
        return features.subscribe(world.keys, self.topic, self.queue, b"0:" if self.on else b"")

    def learn(self, world: World, me: Client, answer: Answer) -> None:
        if not answer.refused:
            (world.subscribed.add if self.on else world.subscribed.discard)(self.queue)


@dataclass
class Publish(Step):
    """Send to a topic, in whatever queues subscribe to it at that moment. Names them when it is asked to."""

    topic: str
    label: str

    def call(self, world: World, me: Client) -> Call[Any] | None:
        items = [codec.encode(Outgoing(body=b"x"), "")]
        address = world.address(self.topic)
        address.bring(me.missing)
        return send.send(address, items, topic=True)

    def enter(self, world: World, me: Client, call: Call[Any], answer: Answer) -> None:
        if int(answer.raw[0]) == Status.KEYS_CHANGED:
            if not world.subscribed:
                raise Broken("a publication asks for queues although none subscribes")
            return
        if answer.refused:
            raise Broken(f"a publication was refused: {answer.value}")
        # The copies have the ids behind the one that the publisher is told, one for each subscriber.
        first = int(answer.value.ids[:16], 16)
        if len(world.subscribed) > 1:
            raise AssertionError("the ledger knows the ids of one copy only")
        for queue in world.subscribed:
            world.ledger.sent(f"{first + 1:016x}", queue, self.label)

    def told(self, world: World, me: Client, answer: Answer) -> None:
        if int(answer.raw[0]) == Status.KEYS_CHANGED:
            me.missing = tuple(bytes(item).decode() for item in answer.raw[3:])


__all__ = [
    "LEASE",
    "Await",
    "Beside",
    "CreateWith",
    "Publish",
    "SendOnce",
    "SendWith",
    "Subscribe",
    "TakeMatch",
]
