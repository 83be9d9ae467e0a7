"""A message that kills its consumer becomes poison after exactly the deliveries of its retry policy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

import mqredis
from mqredis import RetryPolicy, Settings
from tests.msmq.kit import drain

# Locks and commits messages; prints each body, and kills itself (SIGKILL) while it holds the poison message.
CONSUMER = """
import os, signal, sys
import mqredis
url, how = sys.argv[1:]
settings = mqredis.Settings(manager="killed", test_clock=True, allow_volatile=True)
with mqredis.connect(url, settings=settings) as qm, qm.open("q") as q:
    while True:
        if how == "lock":
            try:
                held = q.lock(0, lease=5)
            except mqredis.IoTimeout:
                break
            body = held.body
        else:
            tx = qm.transaction(lease=5)
            try:
                body = q.receive(0, transaction=tx).body
            except mqredis.IoTimeout:
                break
        print(body.decode(), flush=True)
        if body == b"poison":
            os.kill(os.getpid(), signal.SIGKILL)
        held.commit() if how == "lock" else tx.commit()
"""


@pytest.mark.reliability
@pytest.mark.parametrize("how", ["lock", "transaction"])
def test_message_that_kills_its_consumers_becomes_poison(redis_server, how):
    settings = Settings(manager="killed", test_clock=True, allow_volatile=True)
    with mqredis.connect(redis_server.url, settings=settings) as qm:
        transactional = how == "transaction"
        qm.create_queue("q", transactional=transactional, retry=RetryPolicy(immediate=2))
        bodies = [b"1", b"poison", b"2", b"3"]
        with qm.open("q") as q:
            if transactional:
                with qm.transaction() as tx:
                    q.send_many(bodies, transaction=tx)
            else:
                q.send_many(bodies)
        seen, deaths = [], 0
        while True:
            done = subprocess.run(
                [sys.executable, "-c", CONSUMER, redis_server.url, how],
                capture_output=True,
                check=False,
                text=True,
                timeout=60,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            seen += done.stdout.split()
            if done.returncode == 0:
                break
            assert done.returncode == -signal.SIGKILL, done.stderr
            deaths += 1
            qm.advance_clock(6)
        assert (deaths, seen.count("poison")) == (3, 3)
        assert seen[0] == "1"
        assert sorted(seen[-2:]) == ["2", "3"]
        assert [m.body for m in drain(qm, "q;poison")] == [b"poison"]
        assert qm.info().messages == 0
