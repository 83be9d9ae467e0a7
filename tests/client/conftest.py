"""Fixtures of several modules."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

import mqredis
from mqredis.commands.claims import Received
from tests.support.backend import Backend
from tests.support.pipeline import PLAIN_PAGE, Pipeline, new_manager
from tests.support.sink_job import SinkJob


@pytest.fixture
def pipeline(backend: Backend) -> Iterator[Pipeline]:
    raw = backend.client()
    with new_manager(backend) as qm:
        qm.create_queue("orders")
        yield Pipeline(qm, raw)
    raw.close()


_numbers = itertools.count(1)


@pytest.fixture
def job(backend: Backend) -> Iterator[SinkJob]:
    raw = backend.client()
    with mqredis.connect(backend.client(), manager=f"stages-{os.getpid()}-{next(_numbers)}") as qm:
        qm.create_queue("target")
        yield SinkJob(qm, raw)
        assert qm.doctor().findings == ()
    raw.close()


@pytest.fixture
def draining(pipeline: Pipeline) -> Pipeline:
    """A committed claim of 1500 messages, partly removed, with 1500 more messages in the queue."""
    pipeline.fill(3000)
    assert pipeline.claim(1, 1500, first=True).count == 1500
    assert pipeline.page(1) == Received(PLAIN_PAGE, True, True)
    return pipeline
