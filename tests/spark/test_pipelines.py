"""The ready pipelines."""

from __future__ import annotations

import base64
import json

import pytest

from mqredis.models import RetryPolicy
from mqredis.spark.pipelines import analyse, archive, migrate, replay
from mqredis.spark.pipelines.command import main, parser
from tests.support.counts import count

pytestmark = pytest.mark.spark


def test_archive_then_replay(spark, qm, options, fill, tmp_path, redis_server):
    queue = fill(count=200, journaling=True)
    assert len(queue.receive_many(200, 0)) == 200
    where = {"url": redis_server.url, "manager": qm.name}
    lake = str(tmp_path / "lake")
    archive(spark, lake, **where)
    assert qm.queue_info("orders;journal").messages == 0
    frame = spark.read.parquet(lake)
    assert sorted(int(bytes(row.body)) for row in frame.collect()) == list(range(200))
    assert [row.queue for row in frame.select("queue").distinct().collect()] == ["orders;journal"]
    archive(spark, lake, **where)
    assert spark.read.parquet(lake).count() == 200

    assert (
        replay(spark, lake, "again", where="cast(cast(body as string) as int) < 150", chunk=70, **where)
        == 150
    )
    assert [m.text for m in queue.browse()] == [str(n) for n in range(150)]
    assert (
        replay(spark, lake, "again", where="cast(cast(body as string) as int) < 150", chunk=70, **where) == 0
    )
    qm.create_queue("elsewhere")
    assert replay(spark, lake, "other", queue="elsewhere", rate=10_000, chunk=100, **where) == 200
    assert qm.queue_info("elsewhere").messages == 200


def test_analyse(spark, qm, options, fill, tmp_path, redis_server):
    queue = fill(count=30, journaling=True)
    queue.receive_many(10, 0)
    queue.lock(0).abort()
    bad = fill("bad", 2, retry=RetryPolicy(immediate=0))
    for _ in range(2):
        bad.lock(0).abort()
    tables = analyse(spark, tmp_path / "report", url=redis_server.url, manager=qm.name)
    assert tables["depth"] == [
        {"queue": "bad;poison", "state": "available", "messages": 2},
        {"queue": "orders", "state": "available", "messages": 20},
        {"queue": "orders;journal", "state": "available", "messages": 10},
    ]
    orders = {"queue": "orders", "delivery_count": 1, "messages": 1}
    assert [row for row in tables["redeliveries"] if row["queue"] == "orders"] == [orders]
    assert [row["messages"] for row in tables["time in queue"]] == [10]
    assert [(row["queue"], row["messages"]) for row in tables["poison"]] == [("bad;poison", 2)]
    page = (tmp_path / "report" / "index.html").read_text()
    for name in ("depth", "age", "throughput", "redeliveries", "time-in-queue", "poison"):
        assert (tmp_path / "report" / f"{name}.png").read_bytes().startswith(b"\x89PNG"), name
    assert page.count('src="data:image/png') == 6
    assert "<h1>Queue manager" in page
    assert "orders;journal" in page


def test_migrate_a_list_a_stream_and_a_celery_queue(qm, fill, redis_server, capsys):
    where = {"url": redis_server.url, "manager": qm.name, "source_url": redis_server.url}
    qm.create_queue("target")
    target = qm.open("target")
    with redis_server.client() as client:
        client.lpush("work", *[f"w{n}" for n in range(2_500)])
        assert migrate("list", "work", "target", **where) == 2_500
        assert [m.text for m in target.browse()] == [f"w{n}" for n in range(2_500)]
        client.lpush("work", "late")
        assert migrate("list", "work", "target", **where) == 1
        assert migrate("list", "work", "target", **where) == 0
        target.purge()
        for n in range(3):
            client.xadd("log", {"body": f"x{n}", "kind": "test"})
        arguments = ["migrate", "stream", "log", "target", "--source-url", redis_server.url]
        assert main([*arguments, "--url", redis_server.url, "--manager", qm.name]) == 0
        assert json.loads(capsys.readouterr().out) == {"sent": 3}
        assert [(m.text, m.properties) for m in target.browse()] == [
            (f"x{n}", {"kind": "test"}) for n in range(3)
        ]
        target.purge()
        envelope = {
            "body": base64.b64encode(b"[[1], {}, {}]").decode(),
            "content-type": "application/json",
            "headers": {"task": "add", "id": "t1", "retries": 0, "parent": None},
            "properties": {"correlation_id": "t1", "reply_to": "r", "body_encoding": "base64", "priority": 0},
        }
        client.lpush("celery", json.dumps(envelope))
        assert migrate("celery", "celery", "target", **where) == 1
        message = target.receive(0)
        assert (message.body, message.correlation_id, message.response_queue) == (b"[[1], {}, {}]", "t1", "r")
        assert message.properties == {"task": "add", "id": "t1", "retries": 0}
        # Its correlation id marks the queue, so that no claim takes its like unseen (lua/claims/fill).
        (key,) = client.keys("mq:*:q:target:q")
        assert count(client, key.decode(), "marks") == 1


def test_every_pipeline_has_a_command():
    for line in ("archive p", "analyse", "replay p n --rate 5", "migrate celery k q --source-url redis://x"):
        assert parser().parse_args(line.split()).pipeline == line.split()[0]
