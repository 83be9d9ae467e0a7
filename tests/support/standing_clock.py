"""A queue manager whose clock moves only when a test moves it, for what depends on a single millisecond."""

from __future__ import annotations

import os
import random

import pytest

import mqredis
from mqredis import Settings, scripts
from mqredis.scripts import Script
from tests.property.fixed_clock import CLOCK, START, fields
from tests.support.backend import Backend


class StandingClock:
    """A queue manager ``qm``, and the clock that its scripts read: a field of the store."""

    def __init__(self, backend: Backend) -> None:
        name = f"stands-{os.getpid()}-{random.randrange(10**9)}"
        self.raw, self.key, self.ms = backend.client(), f"mq:{{{name}}}:meta", START
        self.move(0)
        settings = Settings(functions="off", client_name="works & co")
        self.qm = mqredis.connect(backend.client(), manager=name, settings=settings)

    def move(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)
        self.raw.hset(self.key, mapping=fields(self.ms))

    def close(self) -> None:
        findings = self.qm.doctor().findings
        self.qm.close()
        self.raw.close()
        assert not [finding for finding in findings if finding.severity != "notice"]


def stop_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let scripts read the time from the field that a :class:`StandingClock` sets."""
    change_lua(monkeypatch, 'redis.call("TIME")', CLOCK)


def change_lua(monkeypatch: pytest.MonkeyPatch, before: str, after: str) -> None:
    """Replace a text in all scripts. They must not run as functions, which other clients may have loaded."""
    get, kept = scripts.get, dict[str, Script]()

    def changed(name: str) -> Script:
        if name not in kept:
            kept[name] = script = Script(name)
            script.joined = [(file, n, text.replace(before, after)) for file, n, text in get(name).joined]
        return kept[name]

    monkeypatch.setattr(scripts, "get", changed)
