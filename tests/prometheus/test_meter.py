"""Metrics of clients, of the scripts on the server, and of workers."""

from __future__ import annotations

import re
import threading
import time
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import mqredis
from mqredis import Durability, Settings
from mqredis.prometheus import Meter, render
from mqredis.prometheus.text import Histogram, render_text
from mqredis.steps import Call, Durable, Procedure, Wait, Woken
from mqredis.worker import Worker
from mqredis.worker.metrics import address, with_port_offset
from tests.prometheus.test_prometheus import LINE, value


@pytest.fixture
def meter(qm):
    found = Meter()
    found.watch(qm)
    yield found
    found.unwatch(qm)


def test_calls_are_counted_and_timed_by_script(qm, meter):
    began = time.monotonic()
    qm.create_queue("q")
    with qm.open("q") as queue:
        for _ in range(3):
            queue.send(b"x")
        queue.receive(0)
    text = meter.render()
    name = "mqredis_client_call_seconds"
    assert value(text, f"{name}_count", manager="w", script="send") == 3
    assert value(text, f"{name}_count", manager="w", script="receive") == 1
    assert value(text, f"{name}_bucket", manager="w", script="send", le="+Inf") == 3
    assert 0 < value(text, f"{name}_sum", manager="w", script="send") < time.monotonic() - began
    for line in text.splitlines():
        assert line.startswith("# ") or LINE.match(line), line


def test_open_queue_is_measured_while_its_manager_is_watched(qm):
    watcher = Meter()

    def sends() -> float:
        text = watcher.render()
        name = "mqredis_client_call_seconds_count"
        return value(text, name, manager="w", script="send") if name in text else 0.0

    qm.create_queue("q")
    with qm.open("q") as queue:
        queue.send(b"before")
        watcher.watch(qm)
        queue.send(b"watched")
        assert sends() == 1
        watcher.unwatch(qm)
        queue.send(b"after")
        qm.info()
        assert sends() == 1
        watcher.watch(qm)
        queue.send(b"watched again")
        watcher.unwatch(qm)
        assert sends() == 2


def test_meter_leaves_a_client_alone_that_it_does_not_watch(qm, meter):
    Meter().unwatch(qm)
    qm.create_queue("q")
    assert value(meter.render(), "mqredis_client_call_seconds_count", manager="w", script="queue_create") == 1


def test_metrics_of_other_clients_are_shown_when_one_server_cannot_be_asked(qm, meter):
    closed = mqredis.connect("memory://gone", manager="gone", settings=Settings(allow_volatile=True))
    meter.watch(closed)
    closed.close()
    qm.create_queue("q")
    assert value(meter.render(), "mqredis_client_call_seconds_count", manager="w", script="queue_create") == 1
    meter.unwatch(closed)


def wakes(meter: Meter) -> float:
    found = re.findall(r"mqredis_client_wake_seconds_count\S* (\S+)", meter.render())
    return float(found[0]) if found else 0.0


def test_woken_reader_is_counted(qm, meter):
    """Repeated until it happens: a reader may receive the message without having waited or been woken."""
    qm.create_queue("q")
    qm.create_queue("ready")
    with qm.open("q") as queue:
        while not wakes(meter):
            reader = threading.Thread(target=lambda: queue.receive(30))
            reader.start()
            while not qm.queue_info("q").waiters and reader.is_alive():
                pass
            queue.send(b"x")
            reader.join(60)
            assert not reader.is_alive()


def run(meter: Meter, qm: Any, answers: list[Any], result: Any) -> None:
    """Run an operation with these steps and answers through the meter."""

    def operation() -> Any:
        for step, _ in answers:
            yield step
        return result

    driven = iter(meter._metered(qm, Procedure(operation())))
    next(driven)
    for _, answer in answers[:-1]:
        driven.send(answer)
    with pytest.raises(StopIteration):
        driven.send(answers[-1][1])


def test_durable_calls_are_counted(qm, meter):
    call = Call("send", None, [], lambda code, _: code)  # type: ignore[arg-type]
    run(meter, qm, [(Durable(call, Durability.FSYNC), (0, []))], "sent")
    name = "mqredis_client_call_seconds_count"
    assert value(meter.render(), name, manager="w", script="send") == 1


WAIT, CALL = Wait(None), Call("receive", None, [], lambda code, _: code)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "how, deliveries, late, counted",
    [
        (Woken.NOTIFIED, 1, 3600, 1),
        ((0, []), 1, 3600, 1),
        (Woken.TIMED_OUT, 1, 3600, 0),
        (Woken.NOTIFIED, 2, 3600, 0),  # it had been delivered before
        (
            Woken.NOTIFIED,
            1,
            -3600,
            0,
        ),  # it arrived before the wait, delayed or locked by another reader
    ],
    ids=["woken", "handed over", "by itself", "again", "old"],
)
@pytest.mark.parametrize("shape", ["messages", "one", "place and locks"])
def test_only_wakes_by_a_new_message_are_counted(qm, meter, how, deliveries, late, counted, shape):
    from mqredis.operations.receive import Locks

    qm.create_queue("q")
    with qm.open("q") as queue:
        queue.send(b"x")
        message = queue.receive(0)
        locks = Locks(queue._handle, (), ["0" * 16], "1", lease_ms=0, until=0.0)
    when = datetime.now(UTC) + timedelta(seconds=late)
    message = message.replace(arrived_at=when, delivery_count=deliveries)
    locks.made = [message]
    result = {
        "messages": [message],
        "one": message,
        "place and locks": (1, locks),
    }[shape]
    run(meter, qm, [(CALL, (0, [])), (WAIT, how), (CALL, (0, []))], result)
    assert wakes(meter) == counted


def test_errors_reach_the_operation(qm, meter):
    with pytest.raises(mqredis.QueueNotFound):
        qm.queue_info("nowhere")
    qm.create_queue("q")
    with qm.open("q") as queue, pytest.raises(mqredis.IoTimeout):
        queue.receive(0.01)


def test_histogram_buckets_are_cumulative():
    histogram = Histogram("h", "About.", (1, 0.1))
    for seconds in (0.05, 0.1, 0.5, 7):
        histogram.observe(seconds, a="b")
    assert render_text([histogram.metric()]).splitlines()[2:] == [
        'h_bucket{a="b",le="0.1"} 2',
        'h_bucket{a="b",le="1"} 3',
        'h_bucket{a="b",le="+Inf"} 4',
        'h_sum{a="b"} 7.65',
        'h_count{a="b"} 4',
    ]


def test_signal_handler_may_measure_a_call_in_the_middle_of_another():
    histogram = Histogram("h", "About.", (1,))

    def interrupted() -> None:
        with histogram._lock:
            histogram.observe(0.5)

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert "h_count{} 1" in render_text([histogram.metric()])


def test_script_durations_of_the_server_are_exported(qm, backend):
    if backend.kind == "real":
        text = render(qm)
        calls = re.findall(r'mqredis_server_script_calls_total\{command="(?:fcall|evalsha)"\} (\S+)', text)
        assert calls
        assert float(calls[0]) > 0
        with backend.client() as client:
            old = str(client.info("server")["redis_version"]).startswith("6.")  # has no percentiles yet
        assert old or re.search(
            r'mqredis_server_script_latency_seconds\{command="\w+",quantile="0.99"\} ', text
        )
    else:
        assert "# TYPE mqredis_server_script_seconds_total counter" in render(qm)


def test_worker_serves_its_metrics(qm, backend):
    qm.create_queue("q")
    worker = Worker(metrics="0")
    texts: list[str] = []

    @worker.consumer("q", name="mine")
    def handle(message):
        with urllib.request.urlopen(f"http://127.0.0.1:{ports[0]}/metrics", timeout=60) as answer:
            texts.append(answer.read().decode())

    ports: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        from mqredis.prometheus import Exporter

        entered = Exporter.__enter__

        def enter(self: Exporter) -> Exporter:
            ports.append(self.address[1])
            return entered(self)

        patch.setattr(Exporter, "__enter__", enter)
        with qm.open("q") as queue:
            queue.send(b"1")
            queue.send(b"2")
        assert worker.run(burst=True, manager=qm, signals=False) == 2
    assert value(texts[1], "mqredis_worker_handled_total", consumer="mine") == 1
    assert 0 <= value(texts[1], "mqredis_worker_seconds_since_read", consumer="mine") < 60
    assert "mqredis_client_call_seconds_count" in texts[1]
    assert "mqredis_queue_messages" not in texts[1]
    assert qm._wrapper is None


@pytest.mark.parametrize("wrong", ["", "here", "1.2.3.4:", "x:99999", "x:-1", "::1", "::1:9465", "[::1]"])
def test_metrics_addresses_are_parsed_and_get_port_offsets(wrong):
    assert address("9465") == ("127.0.0.1", 9465)
    assert address("[::]:9465") == ("::", 9465)
    assert with_port_offset("[::1]:9465", 3) == "[::1]:9468"
    assert with_port_offset("0.0.0.0:9465", 3) == "0.0.0.0:9468"
    assert with_port_offset("0", 2) == "0"
    with pytest.raises(mqredis.InvalidArgument):
        with_port_offset("0.0.0.0:65535", 1)
    with pytest.raises(mqredis.InvalidArgument):
        address(wrong)
