"""A job that writes into queues, in tests: the calls on its sink, one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mqredis
from mqredis import Outgoing
from mqredis.codec.encode import encode
from mqredis.commands import stages as commands
from mqredis.commands.stages import Published, Sink, Stage
from mqredis.operations import pipelines
from mqredis.steps import perform

TTL_MS = 60_000


@dataclass
class SinkJob:
    """A sink, and the calls of the tasks and of the driver of a job."""

    qm: mqredis.QueueManager
    raw: Any
    name: str = "app-load"
    identity: str = "query"

    def stage(
        self,
        batch: int,
        name: str,
        messages: list[Outgoing],
        queue: str = "target",
        unit: str = "",
        ttl_ms: int = TTL_MS,
    ) -> Stage:
        """Stage messages as one task does; return the stage that it reports."""
        elements: list[Any] = []
        size = 0
        for message in messages:
            line, large = encode(message, unit)
            elements += [line[1:]] if large is None else [line[1:], large]  # without the priority digit
            size += len(line) + 12 + len(large or b"")
        special = any(m.dedup_key or m.delay for m in messages)
        stage = Stage(name, queue, len(messages), size)
        call = commands.stage(
            self.qm.context.keys, self.name, batch, stage, ttl_ms, len(messages), size, special, elements
        )
        self.published_before = self.qm.run(perform(call))
        return stage

    def step(
        self, batch: int, *stages: Stage, limit: int = 1000, keep: bool = True, identity: str | None = None
    ) -> Published:
        """One call of a publication."""
        who = self.identity if identity is None else identity
        call = commands.publish(self.qm.context.keys, self.name, batch, who, limit, keep, stages)
        return self.qm.run(perform(call))

    def publish(self, batch: int, *stages: Stage, limit: int = 1000) -> int:
        """All calls of a publication."""
        what = (self.name, batch, self.identity, limit, True, stages)
        return self.qm.run(pipelines.publish(self.qm.context, *what))

    def sweep(self, upto: int, close_ttl_ms: int | None = None) -> int:
        return self.qm.run(pipelines.sweep(self.qm.context, self.name, upto, close_ttl_ms))

    @property
    def state(self) -> Sink:
        return self.qm.run(perform(commands.sink(self.qm.context.keys, self.name)))

    def bodies(self, queue: str = "target") -> list[bytes]:
        return [message.body for message in self.qm.open(queue).browse()]

    def lifetimes(self) -> list[int]:
        """Times to live of the registry and of the stages, in ms; -1: no expiry."""
        names = [stage.name for stage in self.state.stages]
        keys = self.qm.context.keys.sink(self.name, stages=tuple(names)).keys[-1 - len(names) :]
        return [self.raw.pttl(key) for key in keys]


def numbers(first: int, count: int, **fields: Any) -> list[Outgoing]:
    return [Outgoing(body=b"%d" % n, **fields) for n in range(first, first + count)]


def texts(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % n for n in range(first, first + count)]
