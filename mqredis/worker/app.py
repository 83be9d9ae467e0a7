"""The worker of an application: handlers are registered with it, and it runs them.

Applications make a ``Worker`` (docs/worker.md), and so does ``django.runner``. ``command`` sets its broker, time,
health file and metrics before ``run``. ``run`` and ``background`` call ``Running``, whose threads read ``consumers``.

Options of ``consumer``: ``ConsumerOptions`` has the same (tests/worker/test_register.py compares), and ``Consumer``
checks them. The queue of a ``cron`` keeps its messages between two runs of a worker, so its name stays.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from datetime import tzinfo
from typing import Any, TypeVar, Unpack

from mqredis.client import QueueManager, connect
from mqredis.errors import InvalidArgument
from mqredis.models.header import MessageFields
from mqredis.operations import checks
from mqredis.operations.schedules import Wanted
from mqredis.settings import Settings
from mqredis.worker.consumer import Consumer, ConsumerOptions, Handler, queues_of
from mqredis.worker.metrics import address, served
from mqredis.worker.rate import rate_of
from mqredis.worker.retry import Retry
from mqredis.worker.run import Running
from mqredis.worker.shutdown import Shutdown

H = TypeVar("H", bound=Handler)


class Worker:
    """Handles messages with the functions that were registered::

        worker = Worker("redis://localhost:6379/0", manager="shop")

        @worker.consumer("orders", concurrency=8, lease=30, retry=Retry(attempts=5))
        def handle(order: Order, tx: Unit) -> None:
            tx.send("invoices", Invoice(...))

    ``url``, ``manager`` and ``settings`` are those of ``mqredis.connect``; nothing connects before ``run``.
    ``shutdown_seconds``: how long handlers may go on after SIGTERM before they are cancelled and their messages given
    back. ``health_file``: touched whenever a queue was read, at most once a second; each of several processes of
    ``mqredis worker`` has its own, with ``.1``, ``.2`` and so on at the end. ``metrics``: port, or
    host:port, at which metrics are served for Prometheus. ``name``: of this worker in the reports of failed messages,
    and as ``client_name`` if the settings have none; None: host and process id. ``heartbeat_seconds``: how often the
    worker tells the broker that it lives and asks what operators want of it (docs/operating.md); None: never.

    Raises InvalidArgument for times that are none, and for ``metrics`` that are no address.
    """

    @checks.options("Worker", Settings.model_fields)
    def __init__(
        self,
        url: Any = None,
        *,
        manager: str | None = None,
        settings: Settings | None = None,
        shutdown_seconds: float = 25.0,
        health_file: str | None = None,
        metrics: str | None = None,
        name: str | None = None,
        heartbeat_seconds: float | None = 5.0,
    ) -> None:
        if heartbeat_seconds is not None:
            checks.seconds(heartbeat_seconds, "heartbeat_seconds", positive=True)
        checks.seconds(shutdown_seconds, "shutdown_seconds", negative=False)
        if metrics is not None:
            address(metrics)
        self.name = name
        """Name of the worker in failure reports; None: host and process id."""
        self._heartbeat_seconds = heartbeat_seconds
        self._url = url
        self._manager = manager
        self._settings = settings
        self._shutdown_seconds = shutdown_seconds
        self.health_file = health_file
        """File that is touched after each successful read of the queues."""
        self.metrics = metrics
        """Port, or host and port, at which the worker serves metrics."""
        self.consumers: list[Consumer] = []
        """The registered consumers, with their counters."""
        self.schedules: list[Wanted] = []
        """The declared schedules."""
        # It is held while the worker runs.
        self._claim = threading.Lock()
        # That of the present run, from its beginning: ``stop`` may be called while it connects.
        self._shutdown: Shutdown | None = None
        self._ready = threading.Event()

    @checks.options("a consumer")
    def consumer(
        self,
        *queues: str,
        concurrency: int = 1,
        lease: float | None = None,
        retry: Retry | None = None,
        batch: int = 0,
        prefetch: int = 1,
        time_limit: float | None = None,
        max_hold: float = 3600.0,
        rate: str | None = None,
        dead_letter: str | None = None,
        create: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Callable[[H], H]:
        """Register a function or coroutine ``handle(message)`` or ``handle(message, tx)``.

        ``queues``: read in this order; a later one only when the earlier ones are empty.
        ``concurrency``: handlers at a time, each in a thread (coroutines run on one event loop).
        ``lease``: seconds, None for the setting ``lease_seconds``; renewed while the handler runs, for at most
        ``max_hold`` seconds.
        ``retry``: the retry policy that its queues get; None: they keep theirs, with ``isolate`` on, or get the
        default. With ``dead_letter`` a policy that is kept ends there.
        ``batch``: messages per call of a handler that takes a list, at most 256; 0: 64.
        ``prefetch``: a thread that handles single messages locks up to so many (1 to 256) with one call while its
        handler is quick; 1 where messages are read in transactions or at a ``rate``.
        ``time_limit``: seconds after which a handler is cancelled, which counts as a failure.
        ``rate``: at most so many messages in this process, such as "100/m".
        ``dead_letter``: queue for messages that failed for good, with a report; None: the subqueue ``;poison``, or
        what ``Retry.final`` says.
        ``create``: properties of queues to create if they do not exist (``{}`` for the defaults).
        ``name``: of the consumer, in the log, in metrics and for ``pause``; None: that of the function.

        The function is returned as it is. Raises InvalidArgument for an option that does not exist or cannot be used.
        """
        names = queues_of(queues)

        def register(handler: H) -> H:
            self._add(
                Consumer(
                    handler,
                    names,
                    concurrency=concurrency,
                    lease=lease,
                    chosen_retry=retry,
                    batch=batch,
                    prefetch=prefetch,
                    time_limit=time_limit,
                    max_hold=max_hold,
                    rate=None if rate is None else rate_of(rate),
                    dead_letter=dead_letter,
                    create=create,
                    name="" if name is None else name,
                )
            )
            return handler

        return register

    def schedule(
        self,
        name: str,
        when: str | float,
        queue: str,
        body: bytes | str = b"",
        *,
        timezone: str | tzinfo = "UTC",
        **fields: Unpack[MessageFields],
    ) -> None:
        """Send a message to ``queue`` at the times of ``when``, once each, however many workers run.

        ``when``: a cron expression ("*/5 * * * *", "0 3 * * mon-fri"), or seconds between two times. ``timezone``: of
        the expression, such as "Europe/Berlin". Times at which no worker ran are made up for by one message. ``fields``
        are those of Outgoing. ``run`` stores the schedule in the broker (``QueueManager.schedules``), and raises
        ScheduleExists if one of this name was created there at run time.

        Raises InvalidArgument, InvalidName; MissingDependency for an expression without the extra "worker".
        """
        self.schedules.append(self._new_schedule(Wanted.of(name, when, queue, body, fields, timezone)))

    def _new_schedule(self, wanted: Wanted) -> Wanted:
        """The schedule, unless its name is taken. Raises InvalidArgument."""
        if wanted.name in {each.name for each in self.schedules}:
            raise InvalidArgument(f"this worker declares a schedule {wanted.name!r} already")
        return wanted

    def _add(self, consumer: Consumer) -> None:
        """Register a consumer. If its name is taken, a number is added, so that metrics tell the two apart."""
        name, number, taken = consumer.name, 2, {each.name for each in self.consumers}
        while consumer.name in taken:
            consumer.name = f"{name} {number}"
            number += 1
        self.consumers.append(consumer)

    def cron(
        self,
        when: str | float,
        *,
        name: str | None = None,
        timezone: str | tzinfo = "UTC",
        **options: Unpack[ConsumerOptions],
    ) -> Callable[[H], H]:
        """Run a function at the times of ``when``, once each: a schedule with a queue and a consumer of its own.

        ``name``: of the schedule (default: the function's). ``timezone``: as with ``schedule``. ``options`` are those
        of ``consumer``. Raises InvalidArgument and what ``schedule`` raises.
        """
        if callable(when):
            raise InvalidArgument('a cron needs its times: write @worker.cron("0 3 * * *")')

        def register(handler: H) -> H:
            chosen = name or handler.__name__
            queue = f"schedule.{chosen}.runs"
            options.setdefault("create", {"transactional": True})
            wanted = self._new_schedule(Wanted.of(chosen, when, queue, b"", {}, timezone))
            self.consumer(queue, **options)(handler)
            self.schedules.append(wanted)  # if either is refused, neither is registered
            return handler

        return register

    def run(
        self,
        *,
        burst: bool = False,
        manager: QueueManager | None = None,
        errors: str = "log",
        signals: bool = True,
    ) -> int:
        """Handle messages in this process until SIGTERM, SIGINT or ``stop``. Returns how many were handled.

        ``burst``: only until nothing is left to do. ``manager``: an open one to use. ``errors``: "log", or "raise" to
        end with the first exception of a handler. ``signals``: stop at SIGTERM and SIGINT, if this is the main thread.

        Raises InvalidArgument if the worker is running already, has neither consumers nor schedules, or cannot read its
        queues together, QueueNotFound, ScheduleExists, what ``connect`` raises, and InvalidHandle once ``manager`` is
        closed by the application.
        """
        if errors not in ("log", "raise"):
            raise InvalidArgument('errors must be "log" or "raise"')
        given: object = manager
        if not isinstance(given, QueueManager | None):
            raise InvalidArgument(
                "manager must be a queue manager of mqredis.connect, which is blocking, not "
                f"{checks.type_name(given)}: without manager=, the worker connects by itself"
            )
        if not self.consumers and not self.schedules:
            raise InvalidArgument("this worker has no consumers")
        if not self._claim.acquire(blocking=False):
            raise InvalidArgument(
                "this worker is running already: make another Worker, or stop() this one first"
            )
        shutdown = self._shutdown = Shutdown()
        try:
            with ExitStack() as stack:
                if manager is None:
                    manager = stack.enter_context(
                        connect(self._url, manager=self._manager, settings=self._connection_settings())
                    )
                return self._run(manager, shutdown, burst, errors, signals)
        finally:
            self._shutdown = None
            self._claim.release()

    def _connection_settings(self) -> Settings | None:
        """The settings with the name of the worker as that of the client, unless they name it; None: the default."""
        if not self.name:
            return self._settings
        settings = self._settings or Settings.from_env()
        name = settings.client_name or self.name[:64]
        return settings.model_copy(update={"client_name": name})

    def _run(self, manager: QueueManager, shutdown: Shutdown, burst: bool, errors: str, signals: bool) -> int:
        before = sum(consumer.handled for consumer in self.consumers)
        running = Running(
            manager,
            self.consumers,
            self.schedules,
            shutdown=shutdown,
            shutdown_seconds=self._shutdown_seconds,
            health_file=self.health_file,
            raise_errors=errors == "raise",
            name=self.name,
            heartbeat_seconds=self._heartbeat_seconds,
        )
        try:
            running.prepare()
            with ExitStack() as stack:
                stack.enter_context(served(self.metrics, manager, self.consumers))
                if signals:
                    stack.enter_context(shutdown.on_signals())
                self._ready.set()
                running.burst() if burst else running.forever()
        finally:
            running.close()
        if shutdown.error is not None:
            raise shutdown.error
        return sum(consumer.handled for consumer in self.consumers) - before

    @contextmanager
    def background(self, manager: QueueManager | None = None) -> Iterator[Worker]:
        """Run in a thread while a ``with`` block lasts; its end is that of SIGTERM, and waits for the handlers.

        Entered when the queues are open. Raises what the run raised.
        """
        self._ready.clear()
        outcome: Future[int] = Future()

        def target() -> None:
            try:
                outcome.set_result(self.run(manager=manager, signals=False))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for it
                outcome.set_exception(error)
            self._ready.set()

        thread = threading.Thread(target=target, name="mqredis-worker", daemon=True)
        thread.start()
        try:
            self._ready.wait()
            if not outcome.done() or outcome.exception() is None:
                yield self
        finally:
            shutdown = self._shutdown
            # If this run was refused, it must not stop another run. A second order would cancel the handlers.
            if not outcome.done() and shutdown is not None and not shutdown.stopping.is_set():
                shutdown.stop()
            thread.join()
        outcome.result()

    def stop(self) -> None:
        """End ``run`` as SIGTERM does: finish what is being handled. The second time: cancel it."""
        shutdown = self._shutdown  # the run may end meanwhile
        if shutdown is not None:
            shutdown.stop()

    def health(self) -> dict[str, Any]:
        """For each consumer: seconds since its queues were last read successfully (None: never), and its counters."""
        now = time.monotonic()
        return {
            consumer.name: {
                "queues": list(consumer.queues),
                "seconds_since_read": round(now - consumer.last_read, 3) if consumer.last_read else None,
                "handled": consumer.handled,
                "failed": consumer.failed,
                "rejected": consumer.rejected,
            }
            for consumer in self.consumers
        }
