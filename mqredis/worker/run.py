"""One run of a worker in one process: makes its parts, starts them, and shuts them down.

``Worker.run`` makes a ``Running`` and calls it in its own thread. Each part says which threads use its attributes, and
what protects them. The threads of a worker:

==================== ==========================================================================================
that of Worker.run   prepares, waits for the end, gives back what handlers have not finished (``threads``)
mqredis-CONSUMER-n   one for each loop: reads, runs the handler, commits (``loop``)
mqredis-leases       renews leases, cancels handlers, gives back what they do not finish (``lease_renewer``)
mqredis-asyncio      runs the handlers that are coroutines, while the thread of their loop waits (``event_loop``)
mqredis-heartbeat    reports to the broker, and sets pauses, cancels and stops for operators (``heartbeat``)
mqredis-schedules    sends the messages of schedules (``schedule``)
==================== ==========================================================================================

Others begin and end beside a run: mqredis-exporter (``metrics.served``) and mqredis-supervisor (``processes``).
"""

from __future__ import annotations

from collections.abc import Iterable

from mqredis.client import QueueManager
from mqredis.handles import Handles
from mqredis.operations.schedules import Wanted
from mqredis.worker.attempts import Attempts
from mqredis.worker.consumer import Consumer
from mqredis.worker.event_loop import EventLoop
from mqredis.worker.failed_attempts import FailedAttempts
from mqredis.worker.heartbeat import Heartbeat, default_name
from mqredis.worker.lease_renewer import LeaseRenewer
from mqredis.worker.liveness import Liveness
from mqredis.worker.lock_loop import LockLoop
from mqredis.worker.logs import announce, log
from mqredis.worker.loop import Loop, Shared
from mqredis.worker.outage import Outage
from mqredis.worker.queues import Queues
from mqredis.worker.schedule import Scheduler
from mqredis.worker.shutdown import Shutdown
from mqredis.worker.threads import Threads
from mqredis.worker.transaction_loop import TransactionLoop
from mqredis.worker.waiting_reads import Pauses, WaitingReads


class Running:
    """A worker at work on one queue manager, for the thread of ``Worker.run``. ``shutdown`` ends it from any thread."""

    def __init__(
        self,
        manager: QueueManager,
        consumers: Iterable[Consumer],
        schedules: Iterable[Wanted] = (),
        *,
        shutdown: Shutdown,
        shutdown_seconds: float,
        health_file: str | None = None,
        raise_errors: bool = False,
        name: str | None = None,
        heartbeat_seconds: float | None = None,
    ) -> None:
        self._manager = manager
        self._settings = manager.context.settings
        self._name = name or default_name()
        self._consumers = list(consumers)
        self._schedules = list(schedules)
        self._raise_errors = raise_errors
        self.shutdown = shutdown
        self._reads = WaitingReads(manager)
        self._queues = Queues(manager)
        self._targets = Handles(manager)
        self._renewer = LeaseRenewer()
        self._event_loop = EventLoop()
        outage = Outage()
        self._loops: list[Loop] = []  # ``prepare`` makes them
        self._threads = Threads(
            self._loops,
            shutdown_seconds=shutdown_seconds,
            reads=self._reads,
            shutdown=shutdown,
            renewer=self._renewer,
            liveness=Liveness(manager, health_file, self._consumers, self._renewer),
            outage=outage,
        )
        self._scheduler = Scheduler(manager, self._schedules)
        self._heartbeat: Heartbeat | None = None
        if heartbeat_seconds is not None:
            self._heartbeat = Heartbeat(
                manager,
                heartbeat_seconds,
                name=self._name,
                consumers=self._consumers,
                schedules=self._schedules,
                renewer=self._renewer,
                reads=self._reads,
                shutdown=shutdown,
                outage=outage,
            )

    def prepare(self) -> None:
        """Prepare the queues of each consumer and make its loops, and store the schedules."""
        for consumer in self._consumers:
            queues, lapsed = self._queues.prepare(consumer)
            shared = self._shared(consumer)
            loop = TransactionLoop if queues[0].handle.transactional else LockLoop
            for n in range(consumer.concurrency):
                shared.loops.append(loop(shared, queues, () if n else lapsed))
            self._loops += shared.loops
        self._scheduler.declare()

    def _shared(self, consumer: Consumer) -> Shared:
        lease = consumer.lease or self._settings.lease_seconds
        failed = FailedAttempts(
            consumer,
            self._name,
            self.shutdown,
            self._queues.refresh_policy,
            sealed=self._manager.context.sealer is not None,
            raise_errors=self._raise_errors,
        )
        attempts = Attempts(
            consumer,
            lease,
            failed,
            targets=self._targets,
            renewer=self._renewer,
            event_loop=self._event_loop,
        )
        return Shared(
            consumer, lease, attempts, failed, self._queues.reopen, self._reads, self.shutdown, self._renewer
        )

    def burst(self) -> None:
        """Handle messages until the queues are empty, including messages that handlers send; but no paused ones."""
        self._reads.set_pauses(Pauses.of(self._manager.pauses()))
        while not self.shutdown.stopping.is_set():
            before = self._count()
            sent, _ = self._scheduler.serve()
            self._threads.until_empty()
            if self._count() == before and not sent:
                return

    def forever(self) -> None:
        """Handle messages until the end is ordered."""
        announce(self._manager, self._name, self._consumers, self._schedules)
        if self._heartbeat is not None:
            self._heartbeat.begin()
        self._scheduler.begin()
        try:
            self._threads.until_stopped()
        finally:
            self._scheduler.end()
            if self._heartbeat is not None:
                self._heartbeat.end()
            log.info("worker %s ended", self._name)

    def close(self) -> None:
        """Close the parts, those first that use others: the renewer renews with handles, and cancels on the event loop.

        A handler that did not end in time may run still. What it calls then fails, and its messages were given back.
        """
        self._renewer.close()
        self._event_loop.close()
        self._targets.close()
        self._queues.close()

    def _count(self) -> int:
        return sum(c.handled + c.rejected + c.failed + c.isolated for c in self._consumers)
