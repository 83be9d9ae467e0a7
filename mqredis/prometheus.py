"""Figures of a queue manager for Prometheus: its text format, and a small server. Needs nothing to be installed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mqredis.client import QueueManager
from mqredis.errors import MqError, QueueNotFound
from mqredis.models import QueueStatistics

log = logging.getLogger("mqredis")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Sample = tuple[dict[str, str], float]

#: Name, type, help, and the samples of one queue.
_QUEUE: tuple[tuple[str, str, str, Callable[[QueueStatistics], list[Sample]]], ...] = (
    (
        "mqredis_queue_messages",
        "gauge",
        "Messages by state.",
        lambda s: [
            ({"state": "ready"}, s.ready),
            ({"state": "delayed"}, s.delayed),
            ({"state": "locked"}, s.locked),
            ({"state": "retry"}, s.retry_messages),
            ({"state": "poison"}, s.poison_messages),
            ({"state": "journal"}, s.journal_messages),
        ],
    ),
    ("mqredis_queue_bytes", "gauge", "Size of the messages of the queue.", lambda s: [({}, s.bytes)]),
    ("mqredis_queue_waiters", "gauge", "Readers that wait for a message.", lambda s: [({}, s.waiters)]),
    (
        "mqredis_queue_oldest_ready_seconds",
        "gauge",
        "Age of the oldest message that a reader could take now; 0 if there is none.",
        lambda s: [({}, max(s.oldest_seconds.values(), default=0.0))],
    ),
    ("mqredis_queue_in_total", "counter", "Messages that came.", lambda s: [({}, s.total_in)]),
    ("mqredis_queue_out_total", "counter", "Messages that left.", lambda s: [({}, s.total_out)]),
    (
        "mqredis_queue_lost_total",
        "counter",
        "Messages that left without being received, by reason.",
        lambda s: [
            ({"reason": name}, getattr(s, name))
            for name in ("expired", "purged", "rejected", "poisoned", "dropped")
        ],
    ),
    (
        "mqredis_queue_dead_letters_total",
        "counter",
        "Dead letters made from messages of the queue.",
        lambda s: [({}, s.dead)],
    ),
)


def render(manager: QueueManager, pattern: str | None = None) -> str:
    """All figures as text; ``pattern``: only queues that match this glob. Raises BrokerUnavailable."""
    start = time.monotonic()
    info = manager.info()
    statistics = list(_statistics(manager, pattern))
    own = {"manager": manager.name}
    lines: list[str] = []
    for name, kind, text, samples in _QUEUE:
        found = [
            ({**own, "queue": each.name, **labels}, value)
            for each in statistics
            for labels, value in samples(each)
        ]
        _metric(lines, name, kind, text, found)
    for name, text, figure in (
        ("mqredis_manager_messages", "Messages of all queues.", info.messages),
        ("mqredis_manager_bytes", "Size of the messages of all queues.", info.bytes),
        ("mqredis_manager_sessions", "Sessions of clients.", info.sessions),
        ("mqredis_manager_transactions", "Open transactions.", info.transactions),
        ("mqredis_manager_throttled", "1 while every send is refused.", int(info.throttled)),
    ):
        _metric(lines, name, "gauge", text, [(own, figure)])
    _metric(lines, "mqredis_manager_changes_total", "counter", "Changes ever made.", [(own, info.history)])
    took = time.monotonic() - start
    _metric(
        lines, "mqredis_scrape_seconds", "gauge", "How long the broker took to tell all this.", [(own, took)]
    )
    return "\n".join(lines) + "\n"


def _statistics(manager: QueueManager, pattern: str | None) -> Iterable[QueueStatistics]:
    for queue in manager.queues(pattern):
        if ";" in queue.name:
            continue  # subqueues are counted with their queue
        try:
            yield manager.statistics(queue.name)
        except QueueNotFound:
            continue  # deleted meanwhile


def _metric(lines: list[str], name: str, kind: str, text: str, samples: Iterable[Sample]) -> None:
    lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        inner = ",".join(f'{key}="{_escape(label)}"' for key, label in labels.items())
        lines.append(f"{name}{{{inner}}} {float(value):.12g}")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Exporter:
    """Serves the figures over HTTP at ``/metrics``; ``with Exporter(manager, port=9464) as exporter: ...``."""

    def __init__(
        self, manager: QueueManager, *, host: str = "127.0.0.1", port: int = 9464, pattern: str | None = None
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.partition("?")[0] not in ("/", "/metrics"):
                    self.send_error(404)
                    return
                try:
                    body = render(manager, pattern).encode()
                except MqError as error:
                    log.warning("the figures cannot be read: %s", error)
                    self.send_error(503, explain="the broker cannot be reached")
                    return
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
                log.debug(format, *args)

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="mqredis-exporter", daemon=True
        )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return str(self._server.server_address[0]), int(self._server.server_address[1])

    def __enter__(self) -> Exporter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wait(self) -> None:
        """Until the process ends."""
        self._thread.join()
