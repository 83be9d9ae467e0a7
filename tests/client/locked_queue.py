"""A queue with locks in its header or beside it, and what is stored of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import mqredis
from mqredis.operations import settle
from tests.support.counts import PackedLock, count, header, lock_texts, packed_locks

Held = list[mqredis.LockedMessage]


@dataclass
class LockedQueue:
    """Five messages, the first three locked: by one call or one call each, in the queue header or beside it."""

    queue: mqredis.Queue
    raw: Any
    held: Held

    def key(self, part: str) -> str:
        (key,) = self.raw.keys(f"mq:*:q:q:{part}")
        return str(key.decode())

    def locks(self) -> list[PackedLock]:
        """The packed locks; checks that those beside the header are counted and that no other is stored."""
        found = packed_locks(self.raw, self.key("q"))
        beside = sorted(b"lock:" + lock.fence for lock in found if lock.beside)
        assert beside == sorted(lock_texts(self.raw, self.key("q")))
        assert len(beside) == self.count("marks") // 4
        return found

    def packed(self) -> list[int]:
        """Number of messages of each packed lock."""
        return [len(lock.ids) for lock in self.locks()]

    def beside(self) -> list[int]:
        """Number of messages of each packed lock that is beside the header."""
        return [len(lock.ids) for lock in self.locks() if lock.beside]

    def separate(self) -> None:
        """Unpack all locks, by a call that needs single ones."""
        self.queue._manager.update_queue("q", label="with separate locks")

    @contextmanager
    def header_full(self) -> Iterator[None]:
        """Fill the header, so that even the lock of a single message is stored beside it."""
        others = []
        while header(self.raw, self.key("q")).room():
            self.queue.send(b"other", priority=7)
            others.append(self.queue.lock(0, lease=600))
        yield
        for lock in others:
            assert lock.body == b"other"
            lock.commit()

    def lock(self, room: bool) -> mqredis.LockedMessage:
        """Lock one more message; its lock is in the header (``room``) or beside it."""
        with nullcontext() if room else self.header_full():
            lock = self.queue.lock(0)
            assert self.locks()[-1].beside is not room
        return lock

    def count(self, name: str) -> int:
        return count(self.raw, self.key("q"), name)

    def commit(self, locks: Held, fence: str = "") -> int:
        """Commit by one call, with their own fence or ``fence``; return how many were lost."""
        settlements = [("c", fence or lock.fence, lock._key) for lock in locks]
        return len(self.queue.manager.run(settle.settle(self.queue._handle, settlements)).lost)

    def codes(self, **how: bool) -> list[str]:
        """Codes of the doctor's findings."""
        return [finding.code for finding in self.queue._manager.doctor(**how).findings]

    def bodies(self) -> bytes:
        return b"".join(message.body for message in self.queue.browse())
