"""A queue manager with a test clock, on a real server and on fakeredis; the doctor checks it after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import mqredis
from mqredis import Operator, Settings
from tests.support.backend import Backend

SETTINGS = Settings(test_clock=True, allow_volatile=True)


@pytest.fixture
def qm(backend: Backend) -> Iterator[mqredis.QueueManager]:
    with mqredis.connect(backend.client(), settings=SETTINGS) as qm:
        qm.create_queue("orders")
        yield qm
        findings = qm.doctor().findings
    assert not [finding for finding in findings if finding.severity != "notice"]


@pytest.fixture
def operator(qm: mqredis.QueueManager) -> Operator:
    return qm.operator("ada")
