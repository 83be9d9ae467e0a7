"""Why a reader has aborted its lock: the reason is kept with a message that has failed for good."""

from __future__ import annotations

import pytest

import mqredis
from mqredis import RetryPolicy, Settings
from mqredis.sealing import AesGcm
from tests.msmq.kit import drain, make
from tests.support.backend import Backend

TWICE = RetryPolicy(immediate=1)


def test_reason_of_the_last_abort_is_that_of_the_failed_message(qm):
    q = make(qm, retry=TWICE)
    q.send(b"a")
    for reason in ("out of stock", "  still out\nof stock  "):
        q.lock(0).abort(reason)
    (failed,) = drain(qm, "q;poison")
    assert failed.reason == "poison: still out of stock"
    assert failed.properties["failure_reason"] == "still out of stock"


def test_error_in_the_block_of_a_lock_is_the_reason_of_the_failed_message(qm):
    q = make(qm, retry=RetryPolicy(immediate=0))
    q.send(b"a")
    with pytest.raises(LookupError), q.lock(0):
        raise LookupError("no such customer")
    (failed,) = drain(qm, "q;poison")
    assert failed.reason == "poison: LookupError: no such customer"
    assert failed.properties["failure_reason"] == "LookupError: no such customer"


@pytest.mark.parametrize("policy", [None, TWICE])
def test_aborted_message_returns_unchanged_before_its_attempts_are_over(qm, policy):
    q = make(qm, retry=policy)
    q.send(b"a", properties={"n": 1})
    q.lock(0).abort("out of stock")
    again = q.receive(0)
    assert (again.reason, again.properties) == (None, {"n": 1})


def test_error_about_a_sealed_body_is_kept_without_its_text(backend: Backend) -> None:
    settings = Settings(allow_volatile=True)
    sealer = AesGcm({"a": b"k" * 16}, "a")
    with mqredis.connect(backend.client(), settings=settings, sealer=sealer) as qm:
        q = make(qm, retry=RetryPolicy(immediate=0))
        q.send(b"secret")
        with pytest.raises(ValueError, match="secret"), q.lock(0) as lock:
            raise ValueError(lock.body.decode())
        (failed,) = drain(qm, "q;poison")
        assert failed.reason == "poison: ValueError"
