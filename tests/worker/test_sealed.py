"""A worker that lacks the key of a sealed body."""

from __future__ import annotations

from typing import Any

import pytest

import mqredis
from mqredis.sealing import AesGcm
from mqredis.worker import Retry, Worker
from tests.support.server import RedisServer

OURS, THEIRS = b"k" * 16, b"t" * 16


@pytest.mark.parametrize("transactional", [False, True], ids=["locks", "transactions"])
@pytest.mark.parametrize(
    "options", [{}, {"batch": 10}, {"prefetch": 10}], ids=["single", "batch", "prefetch"]
)
def test_body_that_cannot_be_opened_is_a_failed_attempt_of_its_message_alone(
    redis_server: RedisServer, transactional: bool, options: dict[str, Any]
) -> None:
    url, settings = redis_server.url, mqredis.Settings(allow_volatile=True)
    seen: list[bytes] = []
    worker = Worker()

    def handle(messages: Any) -> None:
        seen.extend(message.body for message in (messages if "batch" in options else [messages]))

    handle.__annotations__["messages"] = list[mqredis.Message] if "batch" in options else mqredis.Message
    worker.consumer("q", retry=Retry(attempts=1), **options)(handle)

    def send(key: str, *bodies: bytes) -> None:
        sealer = AesGcm({"ours": OURS, "theirs": THEIRS}, key)
        with mqredis.connect(url, settings=settings, sealer=sealer) as qm, qm.transaction() as tx:
            qm.create_queue("q", transactional=transactional, exist_ok=True)
            qm.open("q").send_many(bodies, transaction=tx if transactional else None)

    send("ours", b"1", b"2")
    send("theirs", b"secret")
    send("ours", b"3")
    with mqredis.connect(url, settings=settings, sealer=AesGcm({"ours": OURS}, "ours")) as qm:
        for _ in range(2):  # in the second run, prefetching has begun
            worker.run(burst=True, manager=qm, signals=False)
        assert sorted(seen) == [b"1", b"2", b"3"]
        assert worker.consumers[0].failed == 1
        assert qm.queue_info("q").messages == 0
    with mqredis.connect(url, settings=settings) as qm, qm.open("q;poison") as poison:
        (failed,) = poison.browse()
    assert "SealBroken: " in str(failed.reason)
    assert "sealed with key b'theirs'" in str(failed.reason)
    assert failed.properties["failure_attempts"] == 1
