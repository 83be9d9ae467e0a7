"""The text format and the exporter for Prometheus."""

from __future__ import annotations

import re
import socket
import struct
import threading
import urllib.error
import urllib.request

import pytest

import mqredis
import mqredis.asyncio
from mqredis import RetryPolicy
from mqredis.prometheus import CONTENT_TYPE, Collector, Exporter, Meter, render
from mqredis.prometheus.text import RENAMED, Metric, render_text

LINE = re.compile(r'^[a-z_]+(\{[a-z]+="(?:[^"\\]|\\.)*"(,[a-z]+="(?:[^"\\]|\\.)*")*\})? -?[0-9.e+-]+$')


def value(text: str, name: str, **labels: str) -> float:
    wanted = ",".join(f'{key}="{label}"' for key, label in labels.items())
    (line,) = [each for each in text.splitlines() if each.startswith(f"{name}{{{wanted}}} ")]
    return float(line.rpartition(" ")[2])


def test_renamed_metric_is_exported_under_both_names(monkeypatch):
    monkeypatch.setitem(RENAMED, "mqredis_old", "mqredis_new")
    metric = Metric("mqredis_new", "gauge", "About.", (({"queue": name}, 1.0) for name in "ab"))
    assert [line for line in render_text([metric]).splitlines() if line.startswith("mqredis")] == [
        'mqredis_new{queue="a"} 1', 'mqredis_new{queue="b"} 1', 'mqredis_old{queue="a"} 1', 'mqredis_old{queue="b"} 1',
    ]  # fmt: skip


@pytest.mark.parametrize(
    "use",
    [Exporter, Collector, lambda manager: Meter().watch(manager)],
    ids=["exporter", "collector", "meter"],
)
async def test_manager_of_asyncio_is_refused(qm, use):
    async with mqredis.asyncio.connect("memory://metrics") as manager:
        with pytest.raises(mqredis.InvalidArgument, match="which is blocking, not mqredis"):
            use(manager)


def test_queue_and_manager_metrics(qm):
    qm.create_queue("q")
    with qm.open("q") as queue:
        queue.send_many([b"x"] * 5)
        queue.send(b"later", delay=60)
        queue.receive()
        queue.lock().reject()
        qm.advance_clock(30)
        held = queue.lock()
        text = render(qm)
        held.abort()
    assert value(text, "mqredis_queue_messages", manager="w", queue="q", state="ready") == 2
    assert value(text, "mqredis_queue_messages", manager="w", queue="q", state="delayed") == 1
    assert value(text, "mqredis_queue_messages", manager="w", queue="q", state="locked") == 1
    assert value(text, "mqredis_queue_lost_total", manager="w", queue="q", reason="rejected") == 1
    assert 30 <= value(text, "mqredis_queue_oldest_ready_seconds", manager="w", queue="q") < 120
    assert value(text, "mqredis_manager_messages", manager="w") == 4
    for line in text.splitlines():
        assert line.startswith("# ") or LINE.match(line), line


def test_failed_messages_and_warning_threshold(qm):
    qm.create_queue("dead")
    for name, policy in (
        ("q", RetryPolicy(immediate=0)),
        ("r", RetryPolicy(immediate=0, final="dead_letter", dead_letter_queue="dead")),
    ):
        qm.create_queue(name, retry=policy)
        with qm.open(name) as queue:
            queue.send(b"a")
            queue.lock(0).abort()
    text = render(qm)
    assert value(text, "mqredis_failed_messages", manager="w", queue="q;poison") == 1
    assert value(text, "mqredis_failed_messages", manager="w", queue="dead") == 1
    assert value(text, "mqredis_failed_messages_warning", manager="w") == 100


def test_pattern_hides_no_dead_letters_of_the_system(qm):
    qm.create_queue("q", retry=RetryPolicy(immediate=0, final="dead_letter"))
    with qm.open("q") as queue:
        queue.send(b"a")
        queue.lock(0).abort()
    for pattern in ("q*", "other*", None):
        text = render(qm, pattern)
        assert value(text, "mqredis_failed_messages", manager="w", queue="system$;deadletter") == 1


def test_reply_queues_have_no_series(qm):
    qm.create_queue("q")
    with qm.open("q") as queue:
        answering = threading.Thread(target=lambda: qm.reply(queue.receive(60), b"y"))
        answering.start()
        reply = qm.request(queue, b"x", timeout=60)
        answering.join(60)
        assert reply.queue in [info.name for info in qm.queues()]
        text = render(qm)
    assert 'queue="q"' in text
    assert reply.queue not in text


def test_labels_are_escaped(qm):
    qm.create_queue('a"b\\c')
    text = render(qm)
    assert 'queue="a\\"b\\\\c"' in text


def test_exporter_serves_metrics_over_http(qm):
    qm.create_queue("q")
    qm.create_queue("other")
    with Exporter(qm, port=0, pattern="q") as exporter:
        base = "http://{}:{}".format(*exporter.address)
        with urllib.request.urlopen(base + "/metrics", timeout=30) as answer:  # noqa: S310 - the exporter of the test
            assert answer.headers["Content-Type"] == CONTENT_TYPE
            text = answer.read().decode()
        assert 'queue="q"' in text
        assert 'queue="other"' not in text
        with pytest.raises(urllib.error.HTTPError) as missing:
            urllib.request.urlopen(base + "/secret", timeout=30)  # noqa: S310
        missing.value.close()
        assert missing.value.code == 404


def test_exporter_listens_on_an_ipv6_address(qm):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with Exporter(qm, host="::1", port=0) as exporter:
        host, port = exporter.address
        assert host == "::1"
        with urllib.request.urlopen(f"http://[::1]:{port}/metrics", timeout=30) as answer:
            assert b"mqredis_manager_messages" in answer.read()


def test_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use") as refused:
            Exporter(port=port)
    assert refused.value.__notes__ == [f"metrics cannot be served at port {port} of 127.0.0.1"]


def test_scraper_that_does_not_wait_for_its_answer_is_no_error(capfd, caplog):
    asked, gone = threading.Event(), threading.Event()

    def source() -> str:
        asked.set()
        assert gone.wait(30)
        return "x" * 10_000_000

    with Exporter(port=0, sources=[source]) as exporter:
        with socket.create_connection(exporter.address) as scraper:
            scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert asked.wait(30)
            scraper.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close resets
        gone.set()
        for thread in threading.enumerate():
            if "process_request_thread" in thread.name:
                thread.join(30)
    assert capfd.readouterr().err == ""
    assert caplog.records == []
