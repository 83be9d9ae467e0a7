"""Pages of locks after the server's clock was set back: shown times are less than stored ones by the lead."""

from __future__ import annotations

import itertools
import os

import mqredis
from mqredis import Settings
from tests.support.backend import Backend

_numbers = itertools.count(1)


def test_pages_of_locks_end_after_the_clock_was_set_back(backend: Backend) -> None:
    name = f"clock-{os.getpid()}-{next(_numbers)}"
    raw = backend.client()
    with mqredis.connect(backend.client(), manager=name, settings=Settings(allow_volatile=True)) as qm:
        meta = f"mq:{{{name}}}:meta"
        config = raw.hget(meta, "config")
        assert isinstance(config, bytes)
        raw.hset(meta, mapping={"lead": 60_000, "config": config.rpartition(b" ")[0] + b" 60000"})
        qm.create_queue("q")
        with qm.open("q") as queue:
            queue.send_many([b"x"] * 5)
            held = [queue.lock(0, lease=100).message.lookup_id for _ in range(5)]
            listed, after = [], None
            for _ in range(5):
                page = qm.locks("q", after=after, limit=2)
                listed += [lock.lookup_id for lock in page.items]
                after = page.next
                if after is None:
                    break
        assert listed == held
        assert after is None
    raw.close()
