"""From Redis lists, streams and Celery queues into mqredis."""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from mqredis.errors import InvalidArgument, MessageTooLarge, TransactionUsage
from mqredis.spark.pipelines import migrate
from mqredis.spark.pipelines.command import main
from mqredis.spark.pipelines.list_source import ListSource
from tests.support.counts import count
from tests.support.server import server_version

pytestmark = pytest.mark.spark
# The package has a function of this name.
module = importlib.import_module("mqredis.spark.pipelines.migrate")


@pytest.fixture
def where(redis_server: Any, qm: Any) -> dict[str, str]:
    """Source and target on one server; the queue ``target``."""
    qm.create_queue("target")
    return {"url": redis_server.url, "manager": qm.name, "source_url": redis_server.url}


@pytest.fixture
def source(redis_server: Any) -> Iterator[Any]:
    """A client of the server that holds the source."""
    with redis_server.client() as client:
        client.delete("work", "log", "celery", "plain")
        yield client


def test_list_stream_and_celery_queue_are_migrated(qm, where, source, redis_server, capsys):
    target = qm.open("target")
    if client := source:
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
            "content-encoding": "utf-8",
            "headers": {"task": "add", "id": "t1", "retries": 0, "parent": None},
            "properties": {"correlation_id": "t1", "reply_to": "r", "body_encoding": "base64", "priority": 0},
        }
        client.lpush("celery", json.dumps(envelope))
        assert migrate("celery", "celery", "target", **where) == 1
        message = target.receive(0)
        assert (message.body, message.correlation_id, message.response_queue) == (b"[[1], {}, {}]", "t1", "r")
        assert message.properties.pop("kombu")
        assert message.properties == {"task": "add", "id": "t1", "retries": 0}
        # Its correlation id marks the queue, so that no claim takes its like unseen (lua/claims/fill).
        (key,) = client.keys("mq:*:q:target:q")
        assert count(client, key.decode(), "marks") == 1


def test_celery_task_has_what_the_transport_for_kombu_reads(qm, where, source):
    properties = {"correlation_id": "t1", "delivery_info": {"exchange": "", "routing_key": "celery"}}
    envelope = {
        "body": base64.b64encode(b"[[1], {}, {}]").decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"task": "add", "id": "t1", "parent": None, "stamps": {"a": [1]}},
        "properties": {**properties, "body_encoding": "base64"},
    }
    source.lpush("celery", json.dumps(envelope))
    assert migrate("celery", "celery", "target", **where) == 1
    message = qm.open("target").receive(0)
    assert json.loads(message.properties["kombu"]) == {  # mqredis/kombu/envelope.py
        "text": True,
        "content-encoding": "utf-8",
        "headers": envelope["headers"],
        "properties": properties,
    }


@pytest.mark.parametrize("newest_left", [True, False])
def test_pops_between_two_runs_skip_nothing(qm, where, source, newest_left):
    push, pop = (source.lpush, source.rpop) if newest_left else (source.rpush, source.lpop)
    where["newest_left"] = newest_left
    push("work", *[f"w{n}" for n in range(1_500)])
    assert migrate("list", "work", "target", **where) == 1_500
    pop("work", 1_400)
    push("work", *[f"w{n}" for n in range(1_500, 1_600)])
    assert migrate("list", "work", "target", **where) == 100
    assert [m.text for m in qm.open("target").browse()] == [f"w{n}" for n in range(1_600)]
    pop("work", 195)
    push("work", *[f"w{n}" for n in range(1_600, 1_610)])
    with pytest.raises(InvalidArgument, match=r"the last 16 of these are no longer there.*another name"):
        migrate("list", "work", "target", **where)
    assert migrate("list", "work", "target", name="again", **where) == 15


def test_item_that_is_too_large_for_the_queue_is_refused_until_the_limit_is_raised(qm, where, source):
    source.lpush("work", "small", b"x" * 100_000, "last")
    qm.update_queue("target", max_message_bytes=50_000)
    with pytest.raises(MessageTooLarge, match="'target' allows 50000"):
        migrate("list", "work", "target", **where)
    assert qm.queue_info("target").messages == 0
    qm.update_queue("target", max_message_bytes=200_000)
    assert migrate("list", "work", "target", **where) == 3
    assert [len(m.body) for m in qm.open("target").browse()] == [5, 100_000, 4]


def test_large_items_are_staged_in_several_calls(qm, where, source, monkeypatch):
    monkeypatch.setattr(module, "CALL_BYTES", 1_000)
    source.lpush("work", *[f"{n:0200}" for n in range(50)])
    before = source.info("commandstats").get("cmdstat_fcall", {}).get("calls", 0)
    assert migrate("list", "work", "target", **where) == 50
    assert source.info("commandstats")["cmdstat_fcall"]["calls"] - before > 10
    assert [int(m.text) for m in qm.open("target").browse()] == [*range(50)]


def test_messages_of_a_transactional_queue_name_their_unit(qm, where, source):
    qm.create_queue("units", transactional=True)
    source.lpush("work", "a", "b", "c")
    assert migrate("list", "work", "units", name="move", **where) == 3
    found = list(qm.open("units").browse())
    assert len({message.transaction_id for message in found}) == 1
    assert found[0].transaction_id.startswith("app-move.")
    assert [(m.first_in_transaction, m.last_in_transaction) for m in found] == [
        (True, False),
        (False, False),
        (False, True),
    ]


def test_topic_is_refused_before_anything_is_copied(qm, where, source):
    qm.create_queue("news", topic=True)
    source.lpush("work", "a")
    with pytest.raises(TransactionUsage, match="is a topic"):
        migrate("list", "work", "news", **where)


def test_list_of_equal_items_is_refused(where, source):
    source.lpush("work", *["tick"] * 40)
    assert migrate("list", "work", "target", **where) == 40
    source.lpush("work", "tick")
    with pytest.raises(InvalidArgument, match="look alike or are there several times"):
        migrate("list", "work", "target", **where)


def test_pops_while_a_list_is_copied_skip_nothing(source):
    source.rpush("work", *[f"w{n}" for n in range(100)])
    found = []
    for _, items in ListSource(source, "work", False, 20).chunks(0):
        found += items
        source.lpop("work", 3)
    assert found == [b"w%d" % n for n in range(100)]


def test_bytes_that_are_not_utf8_are_kept(qm, where, source):
    source.lpush("work", b"\xff\xfe")
    source.xadd("log", {b"body": b"\xff", b"raw": b"\xfe\x00", b"na\xffme": "x"})
    assert migrate("list", "work", "target", **where) == 1
    assert migrate("stream", "log", "target", **where) == 1
    one, two = qm.open("target").browse()
    assert (one.body, two.body) == (b"\xff\xfe", b"\xff")
    assert two.properties == {"raw": b"\xfe\x00", "na\\xffme": "x"}


@pytest.mark.parametrize(
    "kind, key, text",
    [
        ("list", "log", "key 'log' of the source holds a stream, not a list; use migrate stream"),
        ("stream", "work", "key 'work' of the source holds a list, not a stream; use migrate list"),
        ("celery", "plain", "key 'plain' of the source holds a string, not a list"),
        ("list", "none", "the source has no key 'none'"),
        ("celery", "work", "not a Celery envelope: b'x'"),
        ("table", "work", "must be list, stream or celery"),
    ],
)
def test_invalid_source_is_refused_with_an_explanation(qm, where, source, kind, key, text):
    source.lpush("work", "x")
    source.xadd("log", {"body": "x"})
    source.set("plain", "x")
    with pytest.raises(InvalidArgument, match=text):
        migrate(kind, key, "target", **where)
    assert qm.queue_info("target").messages == 0


def test_unreachable_source_is_named(qm, where):
    where = {**where, "source_url": "unix:///nowhere/redis.sock"}
    with pytest.raises(ConnectionError, match=r"the source cannot be read: .*is source_url right"):
        migrate("list", "work", "target", **where)
    assert qm.queue_info("target").messages == 0


def test_source_that_refuses_its_user_is_named(qm, where, source, redis_server):
    source.lpush("work", "x")
    source.execute_command("ACL", "SETUSER", "reader", "reset", "on", ">secret", "+ping")
    try:
        where = {**where, "source_url": redis_server.url.replace("://", "://reader:secret@", 1)}
        with pytest.raises(ConnectionError, match=r"the source cannot be read: .*permission"):
            migrate("list", "work", "target", **where)
    finally:
        source.execute_command("ACL", "DELUSER", "reader")


@pytest.mark.parametrize("url", ["nowhere", "http://host", "redis://host:port"])
def test_wrong_source_url_is_refused(where, url):
    with pytest.raises(InvalidArgument, match="source_url"):
        migrate("list", "work", "target", **{**where, "source_url": url})


@pytest.mark.parametrize("priority, converted", [(-5, 7), (0, 3), (5, 4), (9, 0), (99, 0)])
def test_priority_of_an_envelope_is_converted(priority, converted):
    item = json.dumps({"body": "x", "properties": {"priority": priority}})
    assert module.envelope(item.encode()).priority == converted


@pytest.mark.parametrize(
    "item", [b"[" * 100_000, b'{"body": "x", "properties": {"priority": 1e999}}'], ids=["deep", "inf"]
)
def test_envelope_that_cannot_be_converted_is_refused(item):
    with pytest.raises(InvalidArgument, match="not a Celery envelope"):
        module.envelope(item)


def test_list_that_grows_on_the_right(qm, where, source, redis_server, capsys):
    source.rpush("work", "a", "b")
    line = f"migrate list work target --newest-right --source-url {redis_server.url}"
    assert main([*line.split(), "--url", where["url"], "--manager", qm.name]) == 0
    assert json.loads(capsys.readouterr().out) == {"sent": 2}
    assert [m.text for m in qm.open("target").browse()] == ["a", "b"]


def test_emptied_source_migrates_nothing(where, source):
    source.lpush("work", "x")
    assert migrate("list", "work", "target", **where) == 1
    source.delete("work")
    assert migrate("list", "work", "target", **where) == 0


def test_recreated_stream_is_refused(where, source):
    source.xadd("log", {"body": "x"}, id="5000-0")
    assert migrate("stream", "log", "target", **where) == 1
    source.delete("log")
    source.xadd("log", {"body": "y"}, id="4000-0")
    with pytest.raises(InvalidArgument, match="it was deleted and made again"):
        migrate("stream", "log", "target", **where)


def test_stream_without_the_entry_that_was_copied_last_is_refused(qm, where, source):
    """That of another server has entries before it, which would be skipped."""
    source.xadd("log", {"body": "x"}, id="5000-0")
    assert migrate("stream", "log", "target", **where) == 1
    source.delete("log")
    for identity in ("2000-0", "9000-0"):
        source.xadd("log", {"body": identity}, id=identity)
    if server_version() < (7,):
        pytest.skip("the server does not tell what was deleted")
    with pytest.raises(InvalidArgument, match="Give this migration a name of its own"):
        migrate("stream", "log", "target", **where)
    assert migrate("stream", "log", "target", name="other", **where) == 2


@pytest.mark.parametrize("removed", ["deleted", "trimmed"])
def test_stream_whose_last_copied_entry_was_removed_is_continued(qm, where, source, removed):
    for identity in ("1000-0", "5000-0"):
        source.xadd("log", {"body": identity}, id=identity)
    assert migrate("stream", "log", "target", **where) == 2
    source.xadd("log", {"body": "late"}, id="9000-0")
    if removed == "deleted":
        source.xdel("log", "5000-0")
    else:
        source.xtrim("log", maxlen=1, approximate=False)
    assert migrate("stream", "log", "target", **where) == 1
    assert [m.text for m in qm.open("target").browse()] == ["1000-0", "5000-0", "late"]
