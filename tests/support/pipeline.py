"""A pipeline in tests: the calls on its claim, one by one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mqredis
from mqredis import Outgoing
from mqredis.codec.claims import Claim
from mqredis.commands import claims as commands
from mqredis.commands.address import Address
from mqredis.commands.claims import Claimed, Order, Received
from mqredis.operations import pipelines
from mqredis.operations.queue_call import QueueCall
from mqredis.steps import perform
from tests.support.backend import Backend

# The most messages that one call removes: plain ones, and ones with features (lua/claims/claims.lua).
PLAIN_PAGE, PAGE = 1000, 256


_numbers = itertools.count(1)


@dataclass
class Pipeline:
    """The claim of one owner on one queue, and the calls on it."""

    qm: mqredis.QueueManager
    raw: Any
    owner: str = "lake"
    lineage: str = "first"
    path: str = "orders"

    @property
    def queue(self) -> Address:
        seen = self.qm.run(pipelines.look(self.qm._context, self.path))
        return Address(self.qm._context.keys, self.path, seen.generation)

    @property
    def field(self) -> tuple[str, str]:
        """Key and field in which the claim is stored."""
        return f"mq:{{{self.qm.name}}}:q:{self.path}:q", f"claim:{self.owner}"

    @property
    def text(self) -> str:
        text: bytes = self.raw.hget(*self.field)
        return text.decode()

    @property
    def known(self) -> Claim:
        return Claim.parse(self.text)

    def fill(self, count: int, **fields: Any) -> None:
        with self.qm.open(self.path) as queue:
            for at in range(0, count, 500):
                some = range(at, min(count, at + 500))
                queue.send_many([Outgoing(body=b"%d" % n, **fields) for n in some])

    def claim(self, sequence: int, count: int = 10_000, first: bool = False, **limits: Any) -> Claimed:
        """All calls of a claim; ``limits``: the other fields of its order."""
        who = (self.owner, self.lineage, sequence)
        return self.qm.run(pipelines.claim(self.queue, *who, Order(count, **limits), first))

    def page(self, sequence: int) -> Received:
        """One call of a commit."""
        queue = self.queue
        call = commands.commit(queue, self.owner, self.lineage, sequence)
        return self.qm.run(QueueCall(queue, call))

    def commit(self, sequence: int) -> int:
        return self.qm.run(pipelines.commit(self.queue, self.owner, self.lineage, sequence))

    def read(self, sequence: int, count: int = 10_000) -> list[bytes]:
        call = commands.read(self.queue, self.owner, self.lineage, sequence, 0, count)
        return self.qm.run(perform(call))

    def release(self, forget: bool = False) -> int:
        return self.qm.run(pipelines.release(self.qm._context, self.path, self.owner, forget))

    def holds(self, messages: int, locked: int) -> None:
        """Check the counters of the queue, and that the doctor has no finding."""
        info = self.qm.queue_info(self.path)
        assert (info.messages, info.locked, info.ready) == (messages, locked, messages - locked)
        assert self.qm.doctor().findings == ()


@contextmanager
def new_manager(backend: Backend, **settings: Any) -> Iterator[mqredis.QueueManager]:
    """A queue manager of its own, since the fields of a claim are read without the client."""
    name = f"claims-{os.getpid()}-{next(_numbers)}"
    with mqredis.connect(backend.client(), manager=name, settings=mqredis.Settings(**settings)) as qm:
        yield qm
