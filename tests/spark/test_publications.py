"""Writes that are published in several steps and whose driver stops between them."""

from __future__ import annotations

import json
import logging
from typing import Any

import pyarrow as pa
import pytest

import mqredis
from mqredis.operations import pipelines
from mqredis.spark import options as parsing
from mqredis.spark import publications, recover, sink, withdraw
from mqredis.spark.pipelines.command import main
from mqredis.spark.sink import BatchWriter
from mqredis.spark.source import DefaultSource
from mqredis.spark.staging import Stager
from tests.support.server import RedisServer

pytestmark = pytest.mark.spark

ROWS = 450
NAMED: dict[str, Any] = {"txnAppId": "load", "txnVersion": "1"}


def write(
    options: dict[str, str], rows: int = ROWS, columns: dict[str, list[Any]] | None = None, **more: str
) -> None:
    """A batch write, without a session. ``columns``: of the rows, beside their bodies."""
    given = parsing.parse({**options, "queue": "target", "atomicPublishLimit": "100", **more})
    writer = BatchWriter(given)
    values = {"body": [b"%d" % n for n in range(rows)], **(columns or {})}
    writer.commit([writer.write(iter([pa.RecordBatch.from_pydict(values)]))])


@pytest.fixture
def broken_off(qm: mqredis.QueueManager, options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that writes until the driver stops after the first step; it counts as stopped immediately."""

    def dies(place: str) -> None:
        if place == "mid-publish":
            raise RuntimeError("the driver is gone")

    def make(columns: dict[str, list[Any]] | None = None, **more: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(sink, "kill_point", dies)
            with pytest.raises(RuntimeError, match="the driver is gone"):
                write(options, ROWS, columns, **more)

    qm.create_queue("target")
    monkeypatch.setattr("mqredis.operations.publications.ABANDONED_SECONDS", -10.0)
    return make


def bodies(qm: mqredis.QueueManager) -> list[int]:
    return [int(message.body) for message in qm.open("target").browse()]


def test_number_of_steps_is_logged_before_the_first(qm, options, caplog, monkeypatch):
    qm.create_queue("target")
    seen: list[tuple[int, int]] = []

    def point(place: str) -> None:
        if place == "before-publish":
            seen.append((len(caplog.records), qm.queue_info("target").messages))

    monkeypatch.setattr(sink, "kill_point", point)
    with caplog.at_level(logging.WARNING, "mqredis.spark"):
        write(options)
    assert seen == [(1, 0)]
    (text,) = [record.getMessage() for record in caplog.records]
    assert (
        "450 messages to target become visible in 5 steps of at most 100, as publication 'job-target-" in text
    )
    caplog.clear()
    write(options, rows=100)
    assert caplog.records == []


def test_open_publication_is_listed_and_finished_by_name(qm, options, broken_off, capsys):
    broken_off()
    (one,) = publications(qm)
    assert one.name.startswith("job-target-")
    where = ["--url", options["url"], "--manager", qm.name]
    assert main(["publications", *where]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["publications"]] == [one.name]
    assert (one.queues, one.messages, one.left, one.expired) == (("target",), ROWS, ROWS - 100, False)
    assert one.expires is not None
    assert 86_000 < (one.expires - one.since).total_seconds() <= 86_402
    assert recover(qm, one.name) == ROWS - 100
    assert bodies(qm) == list(range(ROWS))
    assert publications(qm) == []
    assert recover(qm, one.name) == 0
    assert qm.doctor().findings == ()


def test_aborted_stages_do_not_expire_before_their_registry(qm, options, broken_off, redis_server):
    broken_off()
    (one,) = publications(qm)
    stages = f"mq:{{{qm.name}}}:stage:*"
    with redis_server.client() as client:
        for key in client.keys(stages):
            client.pexpire(key, 3_600_000)
        qm.run(pipelines.sweep(qm.context, one.name, one.version, 86_400_000))
        left = [client.pttl(key) for key in client.keys(stages)]
    assert len(left) == 2  # the registry, and the stage that is published by half
    assert max(left) <= 3_600_000


def test_tasks_write_to_the_manager_of_the_driver(qm, options, monkeypatch):
    """The variable of the driver counts, since that of an executor may name another manager, or none."""
    qm.create_queue("target")
    monkeypatch.setenv("MQREDIS_MANAGER", qm.name)
    writer = DefaultSource({"url": options["url"], "queue": "target"}).writer(a_schema(), False)
    monkeypatch.delenv("MQREDIS_MANAGER")
    staged = writer.write(iter([pa.RecordBatch.from_pydict({"body": [b"7"]})]))
    monkeypatch.setenv("MQREDIS_MANAGER", qm.name)
    writer.commit([staged])
    assert bodies(qm) == [7]


def test_rerun_with_a_name_finishes_the_publication_without_duplicates(qm, options, broken_off):
    broken_off(**NAMED)
    write(options, **NAMED)
    write(options, **NAMED)
    assert bodies(qm) == list(range(ROWS))
    assert publications(qm) == []


def test_rerun_without_a_name_is_refused_until_an_operator_decides(qm, options, broken_off):
    broken_off()
    (one,) = publications(qm)
    said = (
        rf"of the 450 messages of '{one.name}' 350 are not in the queue yet.*recover\(manager, '{one.name}'"
    )
    with pytest.raises(Exception, match=said):
        DefaultSource({**options, "queue": "target"}).writer(a_schema(), False)
    with pytest.raises(Exception, match=said):
        write(options)
    assert len(bodies(qm)) == 100
    qm.create_queue("other")
    DefaultSource({**options, "queue": "other"}).writer(a_schema(), False)
    assert recover(qm, one.name) == 350
    write(options, rows=1)
    assert bodies(qm) == [*range(ROWS), 0]


def test_publication_is_withdrawn_by_name(qm, options, broken_off):
    broken_off(**NAMED)
    assert [(each.name, each.version) for each in publications(qm)] == [("app-load", 1)]
    assert withdraw(qm, "app-load") == ROWS - 100
    assert withdraw(qm, "app-load") == 0
    write(options, **NAMED)
    assert bodies(qm) == list(range(100))
    write(options, rows=1, txnAppId="load", txnVersion="2")
    assert bodies(qm) == [*range(100), 0]
    broken_off()
    (one,) = publications(qm)
    assert withdraw(qm, one.name) == ROWS - 100
    assert publications(qm) == []
    assert qm.doctor().findings == ()


def test_running_publication_cannot_be_withdrawn(qm, broken_off, monkeypatch):
    broken_off(**NAMED)
    monkeypatch.setattr("mqredis.operations.publications.ABANDONED_SECONDS", 3600.0)
    with pytest.raises(mqredis.ClaimLost, match="is being published"):
        withdraw(qm, "app-load")
    assert [each.abandoned for each in publications(qm)] == [False]


def test_publication_expires_with_its_stage(qm, options, broken_off, redis_server: RedisServer):
    broken_off(**NAMED)
    broken_off()
    expire(redis_server, qm)
    assert [(each.name, each.expired) for each in publications(qm)] == [("app-load", True)]
    with pytest.raises(mqredis.ClaimLost, match="the rest of its messages has expired"):
        recover(qm, "app-load")
    with pytest.raises(Exception, match="the rest of its messages has expired"):
        write(options, **NAMED)
    write(options, rows=1)  # the write without a name is forgotten
    assert len(bodies(qm)) == 201
    assert withdraw(qm, "app-load") == 0
    assert publications(qm) == []


def test_rest_is_published_if_the_queue_of_its_dead_letters_was_deleted(qm, options, broken_off):
    expired = ROWS - 200
    columns: dict[str, list[Any]] = {
        "time_to_be_received": [1000.0] * ROWS,
        "sent_seconds_ago": [0.0] * 200 + [2000.0] * expired,
        "journal": [1] * ROWS,  # a dead letter of each message that expires
        "dead_letter_queue": ["dead"] * ROWS,
    }
    qm.create_queue("dead")
    broken_off(columns, **NAMED)
    qm.delete_queue("dead")
    write(options, ROWS, columns, **NAMED)
    assert bodies(qm) == list(range(200))
    assert publications(qm) == []
    assert "dead" not in {info.name for info in qm.queues()}
    assert qm.doctor().findings == ()


def test_publication_to_a_deleted_queue_says_what_to_do(qm, options, broken_off):
    broken_off(**NAMED)
    qm.delete_queue("target")
    with pytest.raises(mqredis.QueueNotAvailable, match=r"'app-load' writes to target, .*withdraw\(manager"):
        recover(qm, "app-load")
    qm.create_queue("target")
    assert recover(qm, "app-load") == ROWS - 100
    assert bodies(qm) == list(range(100, ROWS))


def test_unit_whose_last_message_is_left_out_has_no_message_marked_as_last(qm, options, broken_off):
    qm.delete_queue("target")
    qm.create_queue("target", transactional=True)
    columns = {"dedup_key": [f"key {n}" for n in range(ROWS)]}
    broken_off(columns, **NAMED)
    with qm.transaction() as transaction:
        qm.open("target").send(b"-1", dedup_key=f"key {ROWS - 1}", transaction=transaction)
    write(options, ROWS, columns, **NAMED)
    found = [*qm.open("target").browse()]
    assert sorted(int(each.body) for each in found) == [*range(-1, ROWS - 1)]
    assert [int(each.body) for each in found if each.first_in_transaction] == [0, -1]
    assert [int(each.body) for each in found if each.last_in_transaction] == [-1]


def test_unit_with_a_message_that_is_late_is_refused_as_a_whole(qm, options):
    qm.create_queue("target")
    columns = {"time_to_reach_queue": [5.0] * ROWS, "sent_seconds_ago": [0.0] * (ROWS - 1) + [9.0]}
    with pytest.raises(Exception, match="time to reach the queue had passed"):
        write(options, ROWS, columns)
    assert bodies(qm) == []
    assert publications(qm) == []
    write(options, ROWS, {**columns, "sent_seconds_ago": [5.0] * ROWS})
    assert bodies(qm) == list(range(ROWS))


def test_publication_of_a_stream_does_not_expire(qm, options, redis_server, monkeypatch):
    qm.create_queue("target")
    given = parsing.parse({**options, "queue": "target", "atomicPublishLimit": "100"})
    staged = Stager(given, "query-q1", 3, "q1").write(
        iter([pa.RecordBatch.from_pydict({"body": [b"%d" % n for n in range(ROWS)]})])
    )

    def dies(place: str) -> None:
        if place == "mid-publish":
            raise RuntimeError("the driver is gone")

    with monkeypatch.context() as patch:
        patch.setattr(sink, "kill_point", dies)
        with pytest.raises(RuntimeError):
            sink._publish(given, [staged], True)
    assert [each.expires for each in publications(qm)] == [None]
    expire(redis_server, qm)
    assert recover(qm, "query-q1") == ROWS - 100
    assert bodies(qm) == list(range(ROWS))


def expire(server: RedisServer, qm: mqredis.QueueManager) -> None:
    """Expire every stage that has a time to live."""
    with server.client() as client:
        for key in client.keys(f"mq:{{{qm.name}}}:stage:*"):
            if client.ttl(key) > 0:
                client.pexpire(key, 0)


def a_schema() -> Any:
    from pyspark.sql.types import BinaryType, StructField, StructType

    return StructType([StructField("body", BinaryType())])
