"""The collector for ``prometheus_client``, and promtool's verdict on the metrics and rules."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import mqredis
from mqredis.prometheus import Collector, Meter, render
from mqredis.prometheus.text import render_text
from mqredis.worker import Worker
from mqredis.worker.metrics import worker_metrics


def handle(message: Any) -> None:
    """Does nothing."""


@pytest.fixture
def worker() -> Worker:
    """A worker with schedules, and with one handler for several consumers."""
    worker = Worker()
    worker.consumer("a")(handle)
    worker.consumer("b")(handle)
    worker.consumer("c", name="mine")(handle)
    worker.consumer("d", name="mine")(handle)
    worker.cron("0 * * * *", name="hourly")(handle)
    worker.schedule("daily", 86_400, "jobs")
    worker.schedule("weekly", 604_800, "jobs")
    return worker


@pytest.fixture
def meter(qm):
    meter = Meter()
    meter.watch(qm)
    for name in ("q", "other"):
        qm.create_queue(name)
        with qm.open(name) as queue:
            queue.send(b"x")
            queue.receive(0)
    yield meter
    meter.unwatch(qm)


def everything(qm: Any, meter: Meter, worker: Worker) -> str:
    return render(qm) + meter.render() + render_text(worker_metrics(worker.consumers))


def series(text: str) -> list[tuple[str, str]]:
    """Name and labels of each sample, with the type of its metric in front of the name."""
    return [
        (f"{family.type} {sample.name}", str(sorted(sample.labels.items())))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]


def test_registry_has_the_metrics_of_the_exporter(qm, meter, worker):
    worker.consumers[0].last_read = time.monotonic()  # a metric that has an old name, too
    registry = CollectorRegistry()
    sources = [meter.metrics, lambda: worker_metrics(worker.consumers)]
    registry.register(Collector(qm, sources=sources))
    exported = generate_latest(registry).decode()
    assert sorted(series(exported)) == sorted(series(everything(qm, meter, worker)))
    assert registry.get_sample_value("mqredis_queue_in_total", {"manager": "w", "queue": "q"}) == 1


def test_pattern_selects_queues(qm, meter):
    registry = CollectorRegistry()
    registry.register(Collector(qm, pattern="o*"))
    exported = generate_latest(registry).decode()
    assert 'queue="other"' in exported
    assert 'queue="q"' not in exported


def test_unreachable_broker_does_not_affect_the_metrics_of_sources(qm, meter, worker):
    sources = [meter.metrics, lambda: worker_metrics(worker.consumers)]
    own, whole = CollectorRegistry(), CollectorRegistry()
    own.register(Collector(sources=sources))
    whole.register(Collector(qm, sources=sources))
    qm.close()
    expected = series(generate_latest(own).decode())
    assert "mqredis_client_call_seconds" in str(expected)
    assert series(generate_latest(whole).decode()) == expected


def test_unreachable_broker_does_not_affect_registration_and_other_metrics(qm, caplog):
    qm.close()
    registry = CollectorRegistry()
    Counter("requests", "Of the application.", registry=registry).inc()
    registry.register(Collector(qm))
    assert not caplog.messages
    assert [name for name, _ in series(generate_latest(registry).decode())] == ["counter requests_total"]
    assert [message for message in caplog.messages if message.startswith("the metrics cannot be read: ")]


def test_series_are_unique(qm, meter, worker):
    found = series(everything(qm, meter, worker))
    assert len(found) == len(set(found))
    consumers = set(re.findall(r'consumer="([^"]*)"', render_text(worker_metrics(worker.consumers))))
    own = f"{__name__}.handle"
    assert consumers == {own, f"{own} 2", f"{own} 3", "mine", "mine 2"}
    assert worker.health().keys() == consumers


def use_every_kind_of_queue(qm: Any) -> None:
    """Queues of each kind, with messages in each state."""
    qm.create_queue("news", topic=True)
    qm.subscribe("news", "q")
    qm.create_queue('a "quoted" \\ näme', transactional=True, quota_messages=5)
    qm.create_queue("groups", group_exclusive=True, journaling=True, trail=True)
    qm.create_queue("poisoned", retry=mqredis.RetryPolicy(immediate=0, cycles=0))
    with qm.transaction() as tx, qm.open('a "quoted" \\ näme') as queue:
        queue.send(b"x", transaction=tx)
    with qm.open("groups") as groups, qm.open("poisoned") as poisoned, qm.open("news") as news:
        groups.send(b"x", group_id="a")
        groups.receive(0)
        groups.send(b"locked", group_id="a")
        groups.lock(0)
        groups.send(b"delayed", delay=3600)
        news.send(b"x", journal=mqredis.Journal.DEAD_LETTER)
        poisoned.send(b"x")
        poisoned.lock(0).abort()
    with qm.open("other") as other:
        other.send(b"rejected", journal=mqredis.Journal.DEAD_LETTER)
        other.lock(0).reject("no paper")


def test_promtool_accepts_the_metrics(qm, meter, worker):
    """Names, types, units and labels are as Prometheus recommends, in the text of the exporter and of the Collector."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (apt-get install prometheus)")
    use_every_kind_of_queue(qm)
    registry = CollectorRegistry()
    registry.register(Collector(qm, sources=[meter.metrics, lambda: worker_metrics(worker.consumers)]))
    command = [promtool, "check", "metrics"]
    for text in (everything(qm, meter, worker), generate_latest(registry).decode()):
        for name in ("news", "groups", "poisoned", "system$;deadletter"):
            assert f'queue="{name}"' in text
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_promtool_accepts_the_rules(tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (apt-get install prometheus)")
    command = [promtool, "check", "rules", "deploy/prometheus-rules.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
