"""Data that another release has written are refused by each call (docs/production.md), however they look otherwise."""

from __future__ import annotations

from typing import Any

import pytest

import mqredis
from mqredis import SchemaTooNew, SchemaTooOld
from tests.support.backend import Backend


@pytest.mark.parametrize(
    "config, error",
    [
        (b"7 %s 0 0   0", SchemaTooNew),
        (b"10 %s 0 0   0", SchemaTooNew),
        (b"7 %s with other parts", SchemaTooNew),
        (b"5 %s 0 0   0", SchemaTooOld),
        (b"5 %s", SchemaTooOld),
        (b"6 %s damaged", SchemaTooOld),
        (b"damaged", SchemaTooOld),
    ],
)
def test_call_on_data_of_another_schema_is_refused(
    backend: Backend, config: bytes, error: type[mqredis.MqError]
) -> None:
    raw: Any = backend.client()
    meta = "mq:{default}:meta"
    with mqredis.connect(raw, settings=mqredis.Settings(allow_volatile=True)) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            before = raw.hget(meta, "config")
            raw.hset(meta, "config", config.replace(b"%s", before.split(b" ")[1]))
            for call in (lambda: qm.queue_info("q"), lambda: queue.send(b"x"), lambda: queue.receive(0)):
                with pytest.raises(error):
                    call()
            raw.hset(meta, "config", before)
            assert qm.queue_info("q").messages == 0
            assert qm.doctor().healthy
