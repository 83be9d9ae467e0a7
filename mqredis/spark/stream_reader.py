"""What both streaming reads have in common: ``receive_reader`` and ``browse`` derive from it.

Spark calls the methods of a reader one after another in one process of the driver, which lives as long as the query;
``read`` runs in copies of it. What waits is only for this process: a copy opens its own, if it needs any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mqredis.commands.address import Address
from mqredis.commands.claims import Backlog
from mqredis.spark import schema as columns
from mqredis.spark import starting
from mqredis.spark.connection import manager_of, source_errors
from mqredis.spark.options import Options
from mqredis.spark.targets import Target
from mqredis.spark.waits import MessageWaiter, MinimumMessages


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Options, the trigger AvailableNow, the report of a query's progress, and waits."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = columns.selected(schema)
        self.ends: dict[str, str] | None = None  # those of the trigger AvailableNow; None: another trigger
        self.report: dict[str, Any] | None = None
        self._waiter: MessageWaiter | None = None
        self._minimum: MinimumMessages | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_waiter": None, "_minimum": None}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take only what has been sent by now."""
        with source_errors():
            self.ends = starting.ends_now(self.options)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Backlog and the age of the oldest message, for the progress of the query."""
        return self.report

    def _wait(
        self, queues: Mapping[str, Target], seen: Mapping[str, Backlog], after: Callable[[str], str]
    ) -> bool:
        """Wait in the broker for a message that is newer than the SequentialID which ``after`` gives for the key of its
        queue. True: look again."""
        if not self.options.pollTimeoutMs:
            return False
        waiting: dict[str, list[tuple[Address, str]]] = {}
        for key, each in seen.items():
            name, path = queues[key]
            queue = Address(manager_of(self.options.address, name).context.keys, path, each.generation)
            waiting.setdefault(name, []).append((queue, after(key)))
        if self._waiter is None:
            self._waiter = MessageWaiter()
        return self._waiter.wait(self.options.address, waiting, self.options.pollTimeoutMs / 1000)

    def _wait_for_minimum(self, messages: int) -> bool:
        """True if these are too few for a micro-batch as yet, after waiting for some time."""
        if self._minimum is None:
            self._minimum = MinimumMessages(self.options)
        return self._minimum.wait(messages)
