"""A part of a claim, which one task reads. A task that runs again reads the same messages.

``receive_reader`` plans them on the driver, and Spark's tasks read them in the executors, with copies. The order of the
messages in a claim does not change, so ``offset`` and ``count`` name the same ones each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from mqredis.commands import claims as commands
from mqredis.commands.address import Address
from mqredis.spark import schema as columns
from mqredis.spark.columns import Builder
from mqredis.spark.connection import SourceError, manager_of
from mqredis.spark.fetch import Place, Reader
from mqredis.spark.kill_points import kill_point
from mqredis.spark.options import Options
from mqredis.steps import perform


@dataclass
class ClaimSlice(InputPartition):
    """A part of a sealed claim."""

    place: Place
    owner: str
    lineage: str
    sequence: int
    offset: int
    """The number of its first message in the claim, from 0."""
    count: int
    """How many messages it has."""
    batch_id: str

    def read(self, schema: StructType, options: Options) -> Iterator[pa.RecordBatch]:
        """Record batches of the messages. Raises SourceError if the claim has lost messages."""
        place = self.place
        manager = manager_of(place.url, place.manager)
        queue = Address(manager.context.keys, place.path, place.generation)
        reader = Reader(manager, place, Builder(columns.arrow(schema)), batch_id=self.batch_id)
        for done in range(0, self.count, options.fetchSize):
            count = min(options.fetchSize, self.count - done)
            page = commands.read(queue, self.owner, self.lineage, self.sequence, self.offset + done, count)
            ids = manager.run(perform(page))
            if len(ids) != count:
                raise SourceError(f"mqredis: the claim on queue {place.path!r} is incomplete")
            batch = reader.batch(ids, "locked", strict=options.failOnDataLoss)
            if batch is not None:
                yield batch
            kill_point("mid-read")
