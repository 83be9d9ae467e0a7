"""Metrics that only a client can measure: durations of calls, and how soon a waiting reader gets a message.

Applications make a ``Meter`` for their client and name it as a source of ``Exporter`` or ``Collector``.
"""

from __future__ import annotations

import time
from typing import Any, TypeVar

from mqredis.client import QueueManager
from mqredis.errors import MqError
from mqredis.models import Message
from mqredis.prometheus.text import Histogram, Metric, render_text
from mqredis.steps import Call, Operation, Steps, Wait, Woken, procedure

R = TypeVar("R")

_CALL_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_WAKE_BUCKETS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5)


class Meter:
    """Measures the operations of the clients that it watches; others cost nothing."""

    def __init__(self) -> None:
        self.calls = Histogram(
            "mqredis_client_call_seconds",
            "From sending a script call to its reply, repetitions included.",
            _CALL_BUCKETS,
        )
        self.wakes = Histogram(
            "mqredis_client_wake_seconds",
            "From the arrival of a message to the waiting reader that was woken for it.",
            _WAKE_BUCKETS,
        )
        self._ahead: dict[QueueManager, float] = {}

    def watch(self, manager: QueueManager) -> None:
        """Measure this client from now on."""
        self._adjust(manager)
        manager.wrap(lambda operation: self._metered(manager, operation))

    def unwatch(self, manager: QueueManager) -> None:
        """Stop measuring this client."""
        if self._ahead.pop(manager, None) is not None:
            manager.wrap(None)

    def render(self) -> str:
        """The metrics as text, for ``Exporter(sources=[meter.render])``."""
        return render_text(self.metrics())

    def metrics(self) -> list[Metric]:
        """The metrics, for ``Collector(sources=[meter.metrics])``."""
        for manager in list(self._ahead):
            try:
                self._adjust(manager)
            except MqError:
                continue  # its server cannot be asked: what was measured of it and of the others is still shown
        return [self.calls.metric(), self.wakes.metric()]

    def _adjust(self, manager: QueueManager) -> None:
        """Measure by how many seconds the server's clock, which stamps messages, is ahead of this machine's."""
        before = time.time()
        server = manager.driver.clock_ms() / 1000
        self._ahead[manager] = server - (before + time.time()) / 2

    @procedure
    def _metered(self, manager: QueueManager, operation: Operation[R]) -> Steps[R]:
        """Run the operation, and measure each of its steps."""
        steps = iter(operation)
        answer: Any = None
        error: BaseException | None = None
        waiting, notified = 0.0, False
        try:
            while True:
                try:
                    step = steps.send(answer) if error is None else steps.throw(error)
                except StopIteration as stop:
                    if notified:
                        self._woken(manager, stop.value, waiting)
                    result: R = stop.value
                    return result
                answer = error = None
                began = time.monotonic()
                if type(step) is Wait:
                    waiting = waiting or time.time()
                try:
                    answer = yield step
                except GeneratorExit:
                    raise
                except BaseException as raised:  # noqa: BLE001 - the operation's to deal with
                    error = raised
                if type(step) is Call:
                    took = time.monotonic() - began
                    self.calls.observe(took, manager=manager.name, script=step.script)
                elif type(step) is Wait:
                    notified = answer is Woken.NOTIFIED
        finally:
            steps.close()

    def _woken(self, manager: QueueManager, result: Any, waiting: float) -> None:
        """Measure a notified wait, if it has received a message that arrived during the wait and for the first time."""
        message = _first(result)
        if message is None or message.delivery_count > 1:
            return
        ahead = self._ahead.get(manager, 0.0)
        arrived = message.arrived_at.timestamp()
        if arrived >= waiting + ahead:
            self.wakes.observe(max(0.0, time.time() + ahead - arrived), manager=manager.name)


def _first(result: Any) -> Message | None:
    """The first message in the result of a read: messages, locks, or either with the index of their queue."""
    if isinstance(result, tuple):
        result = result[-1]
    result = getattr(result, "messages", result)
    if isinstance(result, list) and result:
        result = result[0]
    return result if isinstance(result, Message) else None
