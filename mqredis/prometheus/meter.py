"""Metrics that only a client can measure: durations of calls, and how soon a waiting reader gets a message.

Applications make a ``Meter`` for their client and name it as a source of ``Exporter`` or ``Collector``; so does
``worker.metrics``. A new metric needs a row in docs/metrics.md and a panel in deploy/grafana.json
(tests/prometheus/test_deploy.py checks both); a renamed one needs its pair in ``text.RENAMED``.
"""

from __future__ import annotations

import time
from typing import Any, TypeVar

from mqredis.client import QueueManager
from mqredis.errors import MqError
from mqredis.models import Message
from mqredis.prometheus.queue_metrics import blocking
from mqredis.prometheus.text import Histogram, Metric, render_text
from mqredis.steps import Call, Durable, Operation, Steps, Wait, Woken, procedure

R = TypeVar("R")

_CALL_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_WAKE_BUCKETS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5)


class Meter:
    """Measures the operations of the clients that it watches; others cost nothing.

    ``QueueManager.wrap`` puts a procedure of the meter around each operation of a client. It passes each step on to the
    driver, and measures how long that takes.
    """

    def __init__(self) -> None:
        self.calls = Histogram(
            "mqredis_client_call_seconds",
            "From sending a script call to its reply, repetitions and the wait for its durability included.",
            _CALL_BUCKETS,
        )
        self.wakes = Histogram(
            "mqredis_client_wake_seconds",
            "From the arrival of a message to the waiting reader that was woken for it.",
            _WAKE_BUCKETS,
        )
        # By watched client: by how many seconds the server's clock, which stamps messages, is ahead of this machine's.
        self._clock_offset: dict[QueueManager, float] = {}

    def watch(self, manager: QueueManager) -> None:
        """Measure this client from now on, in place of another meter. Raises BrokerUnavailable, and
        InvalidArgument for a client of asyncio."""
        self._compare_clocks(blocking(manager))
        manager.wrap(lambda operation: self._metered(manager, operation))

    def unwatch(self, manager: QueueManager) -> None:
        """Stop measuring this client."""
        if self._clock_offset.pop(manager, None) is not None:
            manager.wrap(None)

    def render(self) -> str:
        """The metrics as text, for ``Exporter(sources=[meter.render])``."""
        return render_text(self.metrics())

    def metrics(self) -> list[Metric]:
        """The metrics, for ``Collector(sources=[meter.metrics])``."""
        for manager in list(self._clock_offset):
            try:
                self._compare_clocks(manager)
            except MqError:
                continue  # its server cannot be asked: what was measured of it and of the others is still shown
        return [self.calls.metric(), self.wakes.metric()]

    def _compare_clocks(self, manager: QueueManager) -> None:
        """Ask the server for its time, which was that of the middle of the request."""
        before = time.time()
        server = manager.driver.clock_ms() / 1000
        self._clock_offset[manager] = server - (before + time.time()) / 2

    @procedure
    def _metered(self, manager: QueueManager, operation: Operation[R]) -> Steps[R]:
        """Run the operation, and measure each of its steps."""
        steps = iter(operation)
        # What the driver has answered to the last step, or the error that it has raised.
        answer: Any = None
        error: BaseException | None = None
        # When the first wait of the operation began (0: it did not wait); has a notification ended the last one?
        waiting_since, was_notified = 0.0, False
        try:
            while True:
                try:
                    step = steps.send(answer) if error is None else steps.throw(error)
                except StopIteration as stop:
                    if was_notified:
                        self._observe_wake(manager, stop.value, waiting_since)
                    result: R = stop.value
                    return result
                answer = error = None
                began = time.monotonic()
                if type(step) is Wait:
                    waiting_since = waiting_since or time.time()
                try:
                    answer = yield step
                except GeneratorExit:
                    raise
                except BaseException as raised:  # noqa: BLE001 - the operation's to deal with
                    error = raised
                call = step.call if type(step) is Durable else step
                if type(call) is Call:
                    took = time.monotonic() - began
                    self.calls.observe(took, manager=manager.name, script=call.script)
                elif type(step) is Wait:
                    was_notified = answer is Woken.NOTIFIED or type(answer) is tuple  # a lock was handed over
        finally:
            steps.close()

    def _observe_wake(self, manager: QueueManager, result: Any, waiting_since: float) -> None:
        """Measure a notified wait, if it has received a message that arrived during the wait and for the first time."""
        message = _first(result)
        if message is None or message.delivery_count > 1:
            return
        offset = self._clock_offset.get(manager, 0.0)
        arrived = message.arrived_at.timestamp()  # on the server's clock
        if arrived >= waiting_since + offset:
            self.wakes.observe(max(0.0, time.time() + offset - arrived), manager=manager.name)


def _first(result: Any) -> Message | None:
    """The first message in the result of a read: messages, locks, or either with the index of their queue."""
    if isinstance(result, tuple):
        result = result[-1]
    result = getattr(result, "messages", result)
    if isinstance(result, list) and result:
        result = result[0]
    return result if isinstance(result, Message) else None
