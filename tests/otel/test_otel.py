"""Spans of sends, reads, settlements and handlers; the context that travels in the messages; metrics."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
import threading
from types import MappingProxyType
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from opentelemetry.trace import SpanKind, StatusCode

import mqredis
import mqredis.asyncio
import mqredis.client
from mqredis import otel
from mqredis.otel.patches import _METHODS
from mqredis.worker import Reject, Retry, Unit, Worker
from tests.otel.conftest import SETTINGS


@pytest.fixture
def queue(qm):
    qm.create_queue("q")
    with qm.open("q") as opened:
        yield opened


def context(span: Any) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id


def links(span: Any) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def test_receive_span_links_to_the_send_span(qm, queue, recorded):
    sent = queue.send(b"tea", correlation_id="c")
    message = queue.receive(0)
    send, receive = recorded.span("send q"), recorded.span("receive q")
    assert send.kind is SpanKind.PRODUCER
    assert receive.kind is SpanKind.CLIENT
    common = {
        "messaging.system": "mqredis",
        "messaging.destination.name": "q",
        "messaging.message.id": sent.message_id,
        "messaging.mqredis.manager": "o",
    }
    for span, kind in ((send, "send"), (receive, "receive")):
        assert common.items() <= span.attributes.items()
        assert span.attributes["messaging.operation.name"] == kind
        assert span.attributes["messaging.operation.type"] == kind
    assert receive.attributes["messaging.message.body.size"] == 3
    assert receive.attributes["messaging.message.conversation_id"] == "c"
    assert links(receive) == [context(send)]
    trace_id, span_id = context(send)
    assert list(message.properties) == ["traceparent"]
    assert str(message.properties["traceparent"]).startswith(f"00-{trace_id:032x}-{span_id:016x}-")
    assert trace.get_current_span(otel.context_of(message)).get_span_context().span_id == span_id


def test_send_span_is_a_child_of_the_current_span(queue, recorded):
    with recorded.tracers.get_tracer("t").start_as_current_span("order") as around:
        queue.send(b"x")
    assert recorded.span("send q").parent.span_id == around.get_span_context().span_id


def test_trace_context_set_by_the_sender_is_kept(queue, recorded):
    theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    queue.send(b"x", properties={"traceparent": theirs, "n": 1})
    queue.send(mqredis.Outgoing(body=b"y", properties={"n": 2}))
    first, second = queue.receive_many(2, 0)
    assert first.properties == {"traceparent": theirs, "n": 1}
    assert second.properties["n"] == 2
    assert f"{context(recorded.spans('send q')[1])[0]:032x}" in str(second.properties["traceparent"])


def test_message_with_the_maximum_of_properties_gets_no_context(queue, recorded):
    properties: dict[str, Any] = {f"p{n}": n for n in range(128)}
    queue.send(b"x", properties=properties)
    queue.send(mqredis.Outgoing(body=b"x", properties=properties))
    for message in queue.receive_many(2, 0):
        assert message.properties == properties


def test_batch_receive_span_links_to_each_send_span(queue, recorded):
    queue.send(b"0")
    queue.send_many([b"1", "2", mqredis.Outgoing(body=b"3")])
    queue.send_group([b"4", b"5"])
    found = queue.receive_many(6, 0)
    assert [m.body for m in found] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert found[2].content_type == "text/plain; charset=utf-8"
    one, many = recorded.span("send q"), recorded.span("send_many q")
    group, read = recorded.span("send_group q"), recorded.span("receive_many q")
    assert many.attributes["messaging.batch.message_count"] == 3
    assert group.attributes["messaging.batch.message_count"] == 2
    assert read.attributes["messaging.batch.message_count"] == 6
    assert "messaging.message.id" not in read.attributes
    assert links(read) == [context(one)] + [context(many)] * 3 + [context(group)] * 2


def test_locks_and_settlements_have_spans(queue, recorded):
    sent = queue.send_many([b"1", b"2", b"3"])
    with queue.lock(0):
        pass
    queue.lock(0).abort()
    queue.lock_many(2, 0)[0].reject("why")
    names = ["send_many", "lock", "commit", "lock", "abort", "lock_many", "reject"]
    assert [span.name for span in recorded.spans()] == [f"{name} q" for name in names]
    commit = recorded.span("commit q")
    assert commit.attributes["messaging.operation.type"] == "settle"
    assert commit.attributes["messaging.message.id"] == sent[0].message_id
    assert links(commit) == [context(recorded.span("send_many q"))]


def test_lock_in_a_transaction_has_one_span(qm, recorded):
    qm.create_queue("t", transactional=True)
    with qm.open("t") as queue:
        with qm.transaction() as tx:
            queue.send_many([b"1", b"2"], transaction=tx)
        with qm.transaction() as tx:
            queue.lock(0, transaction=tx)
            queue.cursor().lock(0, transaction=tx)
    assert [span.name for span in recorded.spans()] == ["send_many t", "lock t", "lock t"]
    assert recorded.metric("messaging.client.consumed.messages")[("lock", "t")].value == 2


def test_commit_many_has_one_span(queue, recorded):
    queue.send_many([b"1", b"2"])
    queue.commit_many(queue.lock_many(2, 0))
    with pytest.raises(mqredis.InvalidArgument):
        queue.commit_many(locks=5)
    commit, refused = recorded.spans()[-2:]
    assert (commit.name, refused.name) == ("commit_many q", "commit_many q")
    assert commit.attributes["messaging.operation.type"] == "settle"
    assert commit.attributes["messaging.batch.message_count"] == 2
    assert links(commit) == [context(recorded.span("send_many q"))] * 2
    assert refused.status.status_code is StatusCode.ERROR


def test_errors_are_recorded_but_an_empty_queue_is_none(qm, queue, recorded):
    with pytest.raises(mqredis.IoTimeout):
        queue.receive(0)
    with pytest.raises(mqredis.InvalidArgument):
        queue.send(b"x", priority=9)
    with pytest.raises(mqredis.InvalidArgument):
        queue.send_many([7])
    receive, send = recorded.span("receive q"), recorded.span("send q")
    assert receive.status.status_code is StatusCode.UNSET
    assert receive.attributes["messaging.batch.message_count"] == 0
    for span in (send, recorded.span("send_many q")):
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes["error.type"] == "InvalidArgument"
        assert [event.name for event in span.events] == ["exception"]
    assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.mark.parametrize("send", ["send_many", "send_group"])
@pytest.mark.parametrize("items", ["abc", b"abc", 5])
def test_what_is_no_list_is_refused_as_without_instrumentation(queue, recorded, send, items):
    with pytest.raises(
        mqredis.InvalidArgument, match=f"items must be a list or the like, not {type(items).__name__}"
    ):
        getattr(queue, send)(items)
    assert recorded.span(f"{send} q").status.status_code is StatusCode.ERROR


@pytest.mark.parametrize(
    "of, name",
    [("q", "send_many"), ("q", "send_group"), ("q", "commit_many"), ("qm", "request"), ("qm", "reply")],
)
def test_missing_argument_is_a_type_error_as_without_instrumentation(qm, queue, recorded, of, name):
    with pytest.raises(TypeError, match="missing"):
        getattr({"q": queue, "qm": qm}[of], name)()


def test_wrong_type_is_refused_as_without_instrumentation(qm, recorded):
    with pytest.raises(mqredis.InvalidArgument, match="an open mqredis Queue is needed, not str"):
        qm.request("q", b"x", timeout=1)
    with pytest.raises(mqredis.InvalidArgument, match="a mqredis Message is needed, not str"):
        qm.reply("m", b"x")


def test_request_handler_and_reply_share_a_trace(qm, queue, recorded):
    worker = Worker()

    @worker.consumer("q")
    def handle(message):
        worker.stop()
        qm.reply(message, b"pong")

    thread = threading.Thread(target=lambda: worker.run(manager=qm, signals=False))
    thread.start()
    assert qm.request(queue, b"ping", timeout=60).body == b"pong"
    thread.join(60)
    request, process = recorded.span("request q"), recorded.span("process q")
    reply = recorded.span("reply reply$.*")
    assert process.parent.span_id == request.context.span_id
    assert reply.parent.span_id == process.context.span_id
    assert {span.context.trace_id for span in (request, process, reply)} == {request.context.trace_id}


def test_metrics_have_no_names_of_reply_queues(qm, queue, recorded):
    def answer() -> None:
        qm.reply(queue.receive(60), b"pong")

    thread = threading.Thread(target=answer)
    thread.start()
    reply = qm.request(queue, b"ping", timeout=60)
    thread.join(60)
    with otel.process(reply):
        pass
    for name in ("reply reply$.*", "process reply$.*"):
        attributes = recorded.span(name).attributes
        assert attributes["messaging.destination.name"] == reply.queue
        assert attributes["messaging.destination.temporary"] is True
    for metric, operation in (
        ("messaging.client.operation.duration", "reply"),
        ("messaging.client.sent.messages", "reply"),
        ("messaging.process.duration", "process"),
    ):
        point = recorded.metric(metric)[operation, ""]
        assert point.attributes["messaging.destination.template"] == "reply$.*"


@pytest.mark.parametrize("properties", [None, MappingProxyType({"n": 1})], ids=["none", "mapping"])
def test_context_travels_with_properties_of_every_kind(queue, recorded, properties):
    queue.send(b"x", properties=properties)
    found = queue.receive(0).properties
    assert f"{context(recorded.span('send q'))[0]:032x}" in str(found.pop("traceparent"))
    assert found == dict(properties or {})


@pytest.mark.parametrize("transactional", [False, True], ids=["locks", "transactions"])
@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_handler_continues_the_trace_of_its_message(qm, recorded, worker_of, transactional, kind):
    for name in ("in", "out"):
        qm.create_queue(name, transactional=transactional)
    worker = Worker()
    seen: list[Any] = []

    def handle(message: mqredis.Message, tx: Unit) -> None:
        seen.append((trace.get_current_span().get_span_context().span_id, baggage.get_baggage("who")))
        tx.send("out", b"done")

    async def handle_async(message: mqredis.Message, tx: Any) -> None:
        seen.append((trace.get_current_span().get_span_context().span_id, baggage.get_baggage("who")))
        await tx.send("out", b"done")

    worker.consumer("in")(handle if kind == "function" else handle_async)
    token = attach(baggage.set_baggage("who", "me"))
    with qm.open("in") as queue, qm.transaction() as tx:
        queue.send(b"x", transaction=tx if transactional else None)
    detach(token)
    assert worker_of(worker) == 1
    send, process, out = recorded.span("send in"), recorded.span("process in"), recorded.span("send out")
    assert process.kind is SpanKind.CONSUMER
    assert process.parent.span_id == send.context.span_id
    assert process.attributes["messaging.mqredis.delivery_count"] == 1
    assert seen == [(process.context.span_id, "me")]
    assert out.parent.span_id == process.context.span_id
    assert {span.context.trace_id for span in (send, process, out)} == {send.context.trace_id}


def test_batch_handler_span_links_to_its_messages(qm, queue, recorded, worker_of):
    worker = Worker()

    @worker.consumer("q", batch=10)
    def handle(messages: list[mqredis.Message]) -> None:
        assert len(messages) == 2

    queue.send(b"1")
    queue.send(b"2")
    assert worker_of(worker) == 2
    process = recorded.span("process q")
    assert process.parent is None
    assert process.attributes["messaging.batch.message_count"] == 2
    assert links(process) == [context(span) for span in recorded.spans("send q")]


def test_failed_handler_span_has_an_error_status(qm, queue, recorded, worker_of):
    worker = Worker()

    @worker.consumer("q", retry=Retry(attempts=1))
    def handle(message):
        raise Reject("bad") if message.body == b"1" else OSError("disk")

    queue.send_many([b"1", b"2"])
    worker_of(worker)
    spans = recorded.spans("process q")
    assert [span.attributes["error.type"] for span in spans] == ["Reject", "OSError"]
    assert [span.status.status_code for span in spans] == [StatusCode.ERROR] * 2


def test_process_span_for_a_loop_without_a_worker(queue, recorded):
    queue.send(b"x")
    with queue.lock(0) as lock, otel.process(lock.message) as span:
        assert trace.get_current_span() is span
    assert recorded.span("process q").parent.span_id == recorded.span("send q").context.span_id
    with pytest.raises(ValueError, match="mine"), otel.process(lock.message, lock.message):
        raise ValueError("mine")
    failed = recorded.spans("process q")[1]
    assert failed.attributes["error.type"] == "ValueError"
    assert len(failed.links) == 2
    with pytest.raises(mqredis.InvalidArgument), otel.process():
        pass


async def test_asyncio_interface_has_the_same_spans(backend, recorded):
    client = backend.async_client()
    async with mqredis.asyncio.connect(client, manager="o", settings=SETTINGS) as qm:
        await qm.create_queue("q")
        async with qm.open("q") as queue:
            await queue.send(b"1")
            await queue.send_many([b"2", b"3"])
            assert (await queue.receive(0)).body == b"1"
            async with queue.lock(0) as lock:
                assert lock.body == b"2"
            await (await queue.lock(0)).abort()
            with pytest.raises(mqredis.IoTimeout):
                await queue.receive(0, match=mqredis.Match(message_id="none"))
    await client.aclose()
    names = ["send", "send_many", "receive", "lock", "commit", "lock", "abort", "receive"]
    assert [span.name for span in recorded.spans()] == [f"{name} q" for name in names]
    send, many = recorded.span("send q"), recorded.span("send_many q")
    assert links(recorded.spans("receive q")[0]) == [context(send)]
    assert [links(span) for span in recorded.spans("lock q")] == [[context(many)]] * 2


async def test_coalesced_sends_have_a_span_each(backend, recorded):
    client = backend.async_client()
    async with mqredis.asyncio.connect(client, manager="o", settings=SETTINGS) as qm:
        await qm.create_queue("q")
        async with qm.open("q") as queue:
            await asyncio.gather(*(queue.send(b"%d" % n) for n in range(5)))
            for _ in range(5):
                await queue.receive(0)
    await client.aclose()
    sends, receives = recorded.spans("send q"), recorded.spans("receive q")
    assert len({span.context.trace_id for span in sends}) == 5
    assert sorted(links(span) for span in receives) == sorted([context(span)] for span in sends)


def test_gauges_of_failed_messages(qm, recorded):
    qm.create_queue("f", retry=mqredis.RetryPolicy(immediate=0))
    otel.observe(qm, recorded.meters)
    with qm.open("f") as failing:
        for _ in range(2):
            failing.send(b"a")
            failing.lock(0).abort()
    assert recorded.metric("mqredis.failed_messages")["", "f;poison"].value == 2
    assert recorded.metric("mqredis.failed_messages.warning")["", ""].value == 100


def test_metrics_count_messages_and_durations(qm, queue, recorded, worker_of):
    worker = Worker()

    @worker.consumer("q")
    def handle(message):
        pass

    queue.send(b"1")
    queue.send_many([b"2", b"3"])
    queue.receive(0)
    worker_of(worker)
    sent = recorded.metric("messaging.client.sent.messages")
    assert {key: point.value for key, point in sent.items()} == {("send", "q"): 1, ("send_many", "q"): 2}
    read = recorded.metric("messaging.client.consumed.messages")
    assert {key: point.value for key, point in read.items()} == {("receive", "q"): 1}
    took = recorded.metric("messaging.client.operation.duration")
    assert {key: point.count for key, point in took.items()} == {
        ("send", "q"): 1,
        ("send_many", "q"): 1,
        ("receive", "q"): 1,
    }
    assert {key: p.count for key, p in recorded.metric("messaging.process.duration").items()} == {
        ("process", "q"): 2
    }


def test_uninstrument_restores_the_methods(queue):
    before = mqredis.Queue.send, mqredis.asyncio.Queue.lock
    otel.instrument()
    kept = queue.send
    otel.instrument()
    assert before[0] is not mqredis.Queue.send
    otel.uninstrument()
    assert before == (mqredis.Queue.send, mqredis.asyncio.Queue.lock)
    kept(b"x")
    message = queue.receive(0)
    assert message.properties == {}
    with otel.process(message) as span:
        assert span is trace.INVALID_SPAN


def test_mqredis_does_not_import_opentelemetry():
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"  # as if it were not installed
        "import mqredis, mqredis.asyncio, mqredis.worker; sys.exit('mqredis.otel' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_method_that_sends_or_takes_messages_is_traced():
    traced = {(owner, name) for owner, name, _ in _METHODS}
    gives = re.compile(r"\b(Sent|Message|LockedMessage)\b")
    found = {
        (owner, name)
        for owner in {owner for owner, _ in traced}
        for name, method in vars(getattr(mqredis.client, owner)).items()
        if inspect.isfunction(method) and not name.startswith("_")
        if gives.search(str(inspect.signature(inspect.unwrap(method)).return_annotation))
    }
    peeks = {("Queue", name) for name in ("browse", "peek", "peek_by_lookup_id", "locked_messages", "groups")}
    peeks |= {("Browser", name) for name in ("current", "first", "next")}
    peeks |= {("Cursor", name) for name in ("peek", "peek_next")}
    assert found - traced == peeks
