"""A queue manager on a real server and on fakeredis, with a check that a refusal wrote nothing."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mqredis
from mqredis.errors import MqError
from mqredis.settings import Settings
from tests.property.dump import dump

_numbers = itertools.count(1)


class Bench:
    """A manager with one plain and one transactional queue, a message in each, and a raw client beside it."""

    def __init__(self, raw: Any, manager: str) -> None:
        self.raw = raw
        self.manager = manager
        self.qm = mqredis.connect(
            raw, manager=manager, settings=Settings(test_clock=True, allow_volatile=True)
        )
        self.qm.create_queue("q")
        self.qm.create_queue("t", transactional=True)
        self.q = self.qm.open("q")
        self.t = self.qm.open("t")
        self.id = self.q.send(b"A").lookup_id
        with self.qm.transaction() as tx:
            self.t.send(b"A", transaction=tx)

    def keys(self) -> dict[bytes, Any]:
        """Return all stored data except the sessions, which every call updates."""
        found = dump(self.raw, self.manager)
        for key, (kind, content, _) in found.items():
            if key.endswith(b":meta") and kind == b"hash":
                found[key] = {name: value for name, value in content.items() if not name[:1].isdigit()}
        return found

    @contextlib.contextmanager
    def refuses(self, *errors: type[MqError]) -> Iterator[None]:
        """Assert that the block raises one of these errors with an explanation and writes nothing."""
        before = self.keys()
        with pytest.raises(errors) as caught:
            yield
        assert len(str(caught.value)) > 10
        assert len(str(caught.value)) < 600, "the text repeats the whole input"
        assert self.keys() == before


@pytest.fixture
def bench(backend) -> Iterator[Bench]:
    raw = backend.client()
    made = Bench(raw, f"bad-input-{os.getpid()}-{next(_numbers)}")
    yield made
    findings = made.qm.doctor().findings
    made.qm.close()
    raw.close()
    assert not findings


@pytest.fixture
def refuses(bench: Bench) -> Callable[..., Any]:
    return bench.refuses
