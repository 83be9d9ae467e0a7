"""What ``mqredis worker`` logs, and how. An application that configures logging itself is left alone.

``mqredis worker`` (``cli.work``) and ``run`` call it. Programs of users read the fields of ``JsonFormatter``, so these
stay; docs/worker.md (Log) describes the rest.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime

from mqredis import __version__
from mqredis.client import QueueManager
from mqredis.drivers.net.redaction import redact
from mqredis.operations.schedules import Wanted
from mqredis.operations.server_facts import ServerFacts, section
from mqredis.worker.consumer import Consumer

log = logging.getLogger("mqredis.worker")


class JsonFormatter(logging.Formatter):
    """A record as a line of JSON: time (RFC 3339), level, logger, message, and error if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line. Characters beyond ASCII are escaped, so that no terminal interprets them."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def configure(formatter: logging.Formatter, *, quiet: bool) -> None:
    """Log to standard error, unless the application has configured logging."""
    ours = logging.getLogger("mqredis")
    if ours.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    ours.addHandler(handler)
    ours.setLevel(logging.WARNING if quiet else logging.INFO)
    ours.propagate = False  # the application may configure the root logger later


def announce(
    manager: QueueManager, name: str, consumers: Iterable[Consumer], schedules: Iterable[Wanted]
) -> None:
    """Log the server and the consumers of a worker that begins."""
    log.info(
        "worker %s started: mqredis %s, queue manager %r, server %s",
        name,
        __version__,
        manager.name,
        server_of(manager),
    )
    for consumer in consumers:
        log.info(
            "%s handles %s, %d at a time", consumer.name, ", ".join(consumer.queues), consumer.concurrency
        )
    for schedule in schedules:
        times = schedule.when if isinstance(schedule.when, str) else f"every {schedule.when:.15g} s"
        log.info("schedule %s sends to %s: %s (%s)", schedule.name, schedule.queue, times, schedule.timezone)


def server_of(manager: QueueManager) -> str:
    """Kind and version of the server, and its address without credentials. Unknown parts are left out."""
    facts = ServerFacts(manager.run(section("server")))
    version = facts.release.lower() if facts.version else "of unknown version"
    url = manager.context.settings.url
    return f"{version} at {redact(url)}" if url else version
