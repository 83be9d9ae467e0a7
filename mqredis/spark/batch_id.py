"""Identities of batches that survive a lost checkpoint, and the names of queues in offsets.

The streaming readers write the column; they, ``targets``, ``starting`` and ``claim_commits`` name queues as in offsets.
Checkpoints (``offsets``) and the sinks of users hold both texts, so their form stays as it is. ``options`` limits
``txnAppId`` by their length.

Spark numbers the micro-batches of a checkpoint from 0, so a new checkpoint uses the numbers of the old one again
for other messages. The column ``batch_id`` names the messages themselves: ``<manager>/<queue>/<reader>/<number>``.
The reader is ``consumerName``, or the id of the checkpoint where no name is given. The number rises with each batch
that this reader takes from this queue, and is never used again. All rows with one ``batch_id`` are always the same
messages, but those of a browse may lack some that were deleted meanwhile (``browse``).
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mqredis.errors import InvalidArgument


def escape(name: str) -> str:
    """A name without a slash."""
    return name.replace("%", "%25").replace("/", "%2F")


def queue_key(manager: str, path: str) -> str:
    """The name of a queue in the offsets of a query: ``<manager>/<path>``."""
    return f"{escape(manager)}/{escape(path)}"


def split_key(key: str) -> tuple[str, str]:
    """The queue manager and the path of a queue from its name in an offset."""
    manager, _, path = key.partition("/")
    return unescape(manager), unescape(path)


def unescape(name: str) -> str:
    """The name that :func:`escape` was given."""
    return name.replace("%2F", "/").replace("%25", "%")


def batch_id(manager: str, path: str, reader: str, number: int) -> str:
    """The value of the column for what one micro-batch reads from one queue.

    :param number: of a receiving query the sequence of its claim; of a browsing query the last SequentialID.
    """
    return f"{queue_key(manager, path)}/{escape(reader)}/{number}"


def batch_numbers(rows: Any) -> dict[str, int]:
    """The batches in the rows of a micro-batch: for each source (queue and reader) the number of its batch.

    :param rows: a DataFrame, or an Arrow table (``frame.toArrow()``), with the column ``batch_id``. Of a DataFrame
        this runs a job; where the rows are needed as a table anyway, give the table.
    :raises InvalidArgument: there is no column ``batch_id``, or it is null in a row: that row was not read by a stream.
    """
    table = rows if isinstance(rows, pa.Table) else rows.select("batch_id").distinct().toArrow()
    if "batch_id" not in table.column_names:
        raise InvalidArgument(f"the rows have no column batch_id; they have {', '.join(table.column_names)}")
    found: dict[str, int] = {}
    for text in pc.unique(table["batch_id"]).to_pylist():
        if text is None:
            raise InvalidArgument("batch_id is null: the rows were not read by a stream of mqredis")
        source, _, number = text.rpartition("/")
        found[source] = max(int(number), found.get(source, 0))
    return found
