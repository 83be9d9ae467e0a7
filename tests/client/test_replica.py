"""A replica in place of its primary: clients that only read may use it, and others are told what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mqredis
from mqredis import BrokerUnavailable, Settings
from tests.support.replication import with_replica
from tests.support.server import RedisServer

Start = Callable[..., RedisServer]


def test_client_that_only_reads_may_use_a_replica_without_the_scripts(
    start_server: Start, connect_either: Callable[..., Any]
) -> None:
    primary, replica = with_replica(start_server)
    with mqredis.connect(primary.url) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            queue.send("hello")
    with primary.client() as client:
        assert client.execute_command("WAIT", 1, 5000) == 1
    with connect_either(replica.url, settings=Settings(read_only=True, retry_seconds=1)) as reader:
        assert [depth.ready for depth in reader.overview("q")] == [1]
        assert [stored.message.text for stored in reader.messages("q")] == ["hello"]


def test_client_of_a_replica_is_told_to_use_the_primary(start_server: Start) -> None:
    _, replica = with_replica(start_server)
    with pytest.raises(BrokerUnavailable, match=r"replica\. Give the URL of its primary"):
        mqredis.connect(replica.url, settings=Settings(retry_seconds=0.1))
