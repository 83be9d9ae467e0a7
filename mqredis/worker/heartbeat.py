"""Heartbeats: a worker reports its state to the broker, and gets the orders of operators in the reply.

``run`` starts it, unless heartbeats are off. Clients of this and other releases read the report as a ``WorkerInfo``
(mqredis/models/worker.py), so a new field needs a default there. lua/admin/workers.lua lists who else knows it.
docs/operating.md tells users of MISSED, and the model of MOST.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from mqredis import __version__
from mqredis.client import QueueManager
from mqredis.commands import workers as commands
from mqredis.errors import MqError
from mqredis.models.lookup_ids import format_id
from mqredis.models.worker import RunningHandler, WorkerConsumer
from mqredis.operations.schedules import Wanted
from mqredis.steps import Command, Steps, perform, procedure
from mqredis.worker.consumer import Consumer
from mqredis.worker.lease_renewer import LeaseRenewer
from mqredis.worker.outage import Outage
from mqredis.worker.outcomes import HandlerCancelled
from mqredis.worker.shutdown import Shutdown
from mqredis.worker.waiting_reads import Pauses, WaitingReads

log = logging.getLogger("mqredis.worker")

# A worker counts as gone after so many missing heartbeats.
MISSED = 4
# Limits of a heartbeat: running handlers, and messages of each.
MOST = 100


def default_name() -> str:
    """Host and process id of this process: the name of a worker that was given none."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Heartbeat:
    """Tells the broker every ``seconds`` that a worker lives, and does what operators have asked for.

    It has a thread of its own, so that the end of the worker does not wait for a broker that does not answer.
    """

    def __init__(
        self,
        manager: QueueManager,
        seconds: float,
        *,
        name: str,
        consumers: Sequence[Consumer],
        schedules: Sequence[Wanted],
        renewer: LeaseRenewer,
        reads: WaitingReads,
        shutdown: Shutdown,
        outage: Outage,
    ) -> None:
        # These do not change; the parts that other threads use, too, have their own locks.
        self.id = uuid.uuid4().hex[:12]
        self._manager = manager
        self._seconds = seconds
        self._name = name
        self._consumers = consumers
        self._schedules = schedules
        self._renewer = renewer
        self._reads = reads
        self._shutdown = shutdown
        self._outage = outage
        self._started_at = datetime.now(UTC).isoformat()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="mqredis-heartbeat", daemon=True)
        queues = {queue for consumer in consumers for queue in consumer.queues}
        self._pauses = [
            *(commands.pause_field("queue", name) for name in sorted(queues)),
            *(commands.pause_field("consumer", consumer.name) for consumer in consumers),
        ]

    def begin(self) -> None:
        """Send the first heartbeat, and start the thread for the others. Raises MqError if the first one is refused."""
        self._beat(begins=True)
        self._warn_of_namesakes()
        self._thread.start()

    def _warn_of_namesakes(self) -> None:
        name = self._name
        if name == default_name():
            return  # several workers of one process have it
        live = self._manager.workers()
        found = [f"{other.host}:{other.pid}" for other in live if other.name == name and other.id != self.id]
        if found:
            log.warning(
                "other live workers have the name %r, too: %s; reports of failed messages cannot tell them apart "
                "(a worker that was killed counts as live for %.0f s)",
                name,
                ", ".join(found),
                self._seconds * MISSED,
            )

    def end(self) -> None:
        """Tell the broker that the worker has ended, unless it does not answer the present heartbeat."""
        self._ended.set()
        self._thread.join(self._seconds)
        if self._thread.is_alive():
            return  # nor must that heartbeat come after the end
        try:
            self._tell(0, False, "{}")
        except MqError as error:
            log.debug("the end of the worker could not be told: %s", error)

    def _repeat(self) -> None:
        while not self._ended.wait(self._seconds):
            try:
                # A heartbeat is tried for ``retry_seconds``; this tells at once that the broker does not answer.
                self._manager.run(_ask())
                self._beat()
            except MqError as error:
                self._outage.failed(error)
                log.warning(
                    "the heartbeat of the worker failed: %s; the next one is in %g s", error, self._seconds
                )
            else:
                self._outage.over()

    def _beat(self, *, begins: bool = False) -> None:
        lease_ms = int(self._seconds * MISSED * 1000)
        record = {"lease_ms": lease_ms, **self._record()}
        orders, paused = self._tell(lease_ms, begins, json.dumps(record))
        self._reads.set_pauses(Pauses(paused))
        for order in orders:
            self._obey(*order.split(" "))

    def _tell(self, lease_ms: int, begins: bool, record: str) -> tuple[list[str], frozenset[str]]:
        keys = self._manager.context.keys
        call = commands.beat(keys, self.id, lease_ms, begins, record, self._pauses)
        return self._manager.run(perform(call))

    def _obey(self, order: str, *rest: str) -> None:
        log.info("an operator orders: %s", " ".join((order, *rest)))
        if order == commands.STOP:
            self._shutdown.stop()
        elif order == commands.CANCEL:
            for held, handling in self._renewer.handlers().items():
                if any(format_id(message.lookup_id) == rest[0] for message in handling.messages):
                    self._renewer.cancel(held, HandlerCancelled("an operator has cancelled the handler"))

    def _record(self) -> dict[str, Any]:
        now = time.monotonic()
        handling = list(self._renewer.handlers().values())
        busy = [each.consumer for each in handling]
        consumers = [
            WorkerConsumer(
                name=consumer.name,
                queues=consumer.queues,
                concurrency=consumer.concurrency,
                busy=busy.count(consumer),
                handled=consumer.handled,
                failed=consumer.failed,
                rejected=consumer.rejected,
                last_error=consumer.last_error,
            )
            for consumer in self._consumers
        ]
        handlers = [
            RunningHandler(
                consumer=each.consumer.name,
                queue=each.messages[0].queue,
                lookup_ids=tuple(message.lookup_id for message in each.messages[:MOST]),
                seconds=round(now - each.since, 3),
            )
            for each in handling[:MOST]
        ]
        return {
            "name": self._name,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": __version__,
            "started_at": self._started_at,
            "schedules": [schedule.name for schedule in self._schedules],
            "consumers": [each.model_dump() for each in consumers],
            "running": [each.model_dump() for each in handlers],
        }


@procedure
def _ask() -> Steps[None]:
    """Ask for the time, to learn whether the broker answers. Raises BrokerUnavailable."""
    yield Command(("TIME",))
