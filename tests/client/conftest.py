"""Fixtures of several modules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.backend import Backend
from tests.support.pipeline import Pipeline, new_manager


@pytest.fixture
def pipeline(backend: Backend) -> Iterator[Pipeline]:
    raw = backend.client()
    with new_manager(backend) as qm:
        qm.create_queue("orders")
        yield Pipeline(qm, raw)
    raw.close()
