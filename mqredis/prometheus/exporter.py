"""A small HTTP server for Prometheus.

``mqredis exporter``, ``worker.metrics`` and applications start it (docs/metrics.md). If the broker cannot be reached it
answers 503 without the sources: an answer without queues would look as if there were none. Each request has a thread,
so sources are called by several threads.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mqredis.client import QueueManager
from mqredis.errors import MqError
from mqredis.prometheus.queue_metrics import blocking, render
from mqredis.prometheus.text import CONTENT_TYPE

log = logging.getLogger("mqredis")


class Exporter:
    """Serves metrics over HTTP at ``/metrics``: ``with Exporter(manager, port=9464) as exporter: ...``.

    ``manager``: the queue manager to report; None: none. ``pattern``: only queues that match this glob. ``sources``:
    more text, such as ``Meter().render``. Raises OSError if the address is in use, InvalidArgument for a
    manager of asyncio.
    """

    def __init__(
        self,
        manager: QueueManager | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 9464,
        pattern: str | None = None,
        sources: Sequence[Callable[[], str]] = (),
    ) -> None:
        if manager is not None:
            blocking(manager)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.partition("?")[0] not in ("/", "/metrics"):
                    self.send_error(404)
                    return
                try:
                    queues = render(manager, pattern) if manager is not None else ""
                    body = "".join([queues, *(source() for source in sources)]).encode()
                except MqError as error:
                    log.warning("the metrics cannot be read: %s", error)
                    self.send_error(503, explain="the broker cannot be reached")
                    return
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
                log.debug(format, *args)

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                # A scraper that does not wait for the answer any more is no error of the application.
                usual = isinstance(sys.exception(), ConnectionError | TimeoutError)
                level = logging.DEBUG if usual else logging.ERROR
                log.log(level, "a request for metrics was not answered", exc_info=True)

        try:
            self._server = Server((host, port), Handler)
        except OSError as error:
            error.add_note(f"metrics cannot be served at port {port} of {host}")
            raise
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
        """Wait until the process ends."""
        self._thread.join()
