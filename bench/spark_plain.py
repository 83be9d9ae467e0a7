"""A plain source and sink between Redis and Spark, as a good afternoon makes them: what the Data Source API and Redis
give to users who need a sorted set of ids, a hash for each message and exactly-once streams, and nothing else.

``bench.spark`` runs it beside ours. A queue that is streamed from or written to is ``ids`` and a hash of five fields
for each message; one that is only read in batches is a hash of packed values, which is faster. No quotas, priorities,
timers, waiting readers, locks, counters, indexes, tokens. No product.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

SCHEMA = "id BIGINT, queue STRING, label STRING, body BINARY, priority INT"
NAMES = ["id", "queue", "label", "body", "priority"]
# Messages that one call claims, reads, removes or publishes.
PART = 2_000

# KEYS ids, claimed, meta; ARGV sequence, messages. Claims a part; 1 once all are claimed.
_CLAIM = f"""
local known = redis.call("HMGET", KEYS[3], "committed", "pending", "sealed")
local seq, have = tonumber(ARGV[1]), redis.call("LLEN", KEYS[2])
if seq <= tonumber(known[1] or 0) then return redis.error_reply("STALE") end
if seq < tonumber(known[2] or 0) then return redis.error_reply("FENCED") end
if tonumber(known[3] or 0) >= seq then return 1 end
local ids = redis.call("ZRANGE", KEYS[1], 0, math.min({PART}, ARGV[2] - have) - 1)
redis.call("HSET", KEYS[3], "pending", seq)
if #ids > 0 then
  redis.call("ZREM", KEYS[1], unpack(ids))
  redis.call("RPUSH", KEYS[2], unpack(ids))
end
if #ids > 0 and have + #ids < tonumber(ARGV[2]) then return 0 end
redis.call("HSET", KEYS[3], "sealed", seq)
return 1
"""
# KEYS claimed, meta; ARGV sequence. Removes a part of what is received; 1 once all is.
_RECEIVE = f"""
local ids = redis.call("LPOP", KEYS[1], {PART})
if ids then
  for n = 1, #ids do ids[n] = "plain:m:" .. ids[n] end
  redis.call("DEL", unpack(ids))
  return 0
end
redis.call("HSET", KEYS[2], "committed", ARGV[1])
return 1
"""
# KEYS stage, ids, meta. Publishes a part of a stage, which holds body, priority and correlation id of each message; 1
# once all is published.
_PUBLISH = f"""
local staged = redis.call("LPOP", KEYS[1], 3 * {PART})
if not staged then return 1 end
local count, places = #staged / 3, {{}}
local last = redis.call("HINCRBY", KEYS[3], "last", count)
for n = 1, count do
  local id, at = last - count + n, 3 * n
  redis.call("HSET", "plain:m:" .. id, "id", id, "queue", "orders", "label", "", "body", staged[at - 2], "priority",
    staged[at - 1], "correlation_id", staged[at])
  places[2 * n - 1], places[2 * n] = id, id
end
redis.call("ZADD", KEYS[2], unpack(places))
return 0
"""
# KEYS stage, ids, meta. Publishes a part of a stage that holds nothing but bodies; 1 once all is published.
_PUBLISH_BODIES = f"""
local bodies = redis.call("LPOP", KEYS[1], {PART})
if not bodies then return 1 end
local last, places = redis.call("HINCRBY", KEYS[3], "last", #bodies), {{}}
for n = 1, #bodies do
  local id = last - #bodies + n
  redis.call("HSET", "plain:m:" .. id, "id", id, "queue", "orders", "label", "", "body", bodies[n], "priority", 3)
  places[2 * n - 1], places[2 * n] = id, id
end
redis.call("ZADD", KEYS[2], unpack(places))
return 0
"""

IDS, META, PACKED = "plain:ids", "plain:meta", "plain:packed"


def claimed(sequence: int) -> str:
    """Key of the messages that a micro-batch has claimed."""
    return f"plain:claim:{sequence}"


class Client:
    """Requests packed by hand, replies read by hiredis."""

    def __init__(self, url: str) -> None:
        import redis

        self.redis: Any = redis.Redis.from_url(url)
        self.scripts = {
            text: self.redis.register_script(text) for text in (_CLAIM, _RECEIVE, _PUBLISH, _PUBLISH_BODIES)
        }
        self._connection: Any = self.redis.connection_pool.get_connection()

    def repeat(self, script: str, keys: Sequence[str], args: Sequence[int] = ()) -> None:
        """Call a script until it is done."""
        while not self.scripts[script](keys, args):
            pass

    def hashes(self, ids: Sequence[bytes]) -> Iterator[list[bytes]]:
        """The fields of messages, in one round trip."""
        tail = b"".join(b"$%d\r\n%s\r\n" % (len(name), name.encode()) for name in NAMES)
        request = [b"*7\r\n$5\r\nHMGET\r\n$%d\r\nplain:m:%s\r\n%s" % (len(lid) + 8, lid, tail) for lid in ids]
        self._connection.send_packed_command([b"".join(request)])
        for _ in ids:
            yield self._connection.read_response()


_CLIENTS: dict[str, Client] = {}


def client(url: str) -> Client:
    """One for each process."""
    return _CLIENTS.get(url) or _CLIENTS.setdefault(url, Client(url))


def batch(columns: Iterable[Any]) -> Any:
    """A record batch of ids, queues, labels, bodies and priorities."""
    import pyarrow as pa

    ids, queues, labels, bodies, priorities = columns
    return pa.RecordBatch.from_arrays(
        [
            pa.array(ids, pa.int64()),
            pa.array(queues, pa.binary()).cast(pa.string()),
            pa.array(labels, pa.binary()).cast(pa.string()),
            pa.array(bodies, pa.binary()),
            pa.array(priorities, pa.int32()),
        ],
        NAMES,
    )


def clear(url: str) -> None:
    """The queue is empty, and no claim exists."""
    redis = client(url).redis
    cursor = -1
    while cursor:
        cursor, some = redis.scan(max(cursor, 0), match="plain:*", count=10_000)
        if some:
            redis.delete(*some)


def fill_packed(url: str, rows: int, size: int) -> None:
    """A queue to be read in batches: id -> priority, lengths of queue and label, both, body."""
    import struct

    redis = client(url).redis
    for start in range(0, rows, PART):
        value = struct.pack(">BHH", 3, 6, 0) + b"orders" + b"x" * size
        redis.hset(PACKED, mapping={str(n): value for n in range(start, min(start + PART, rows))})
        redis.zadd(IDS, {str(n): n for n in range(start, min(start + PART, rows))})


def data_source(short_name: str, reader: Any, stream_reader: Any, writer: Any) -> Any:
    """A data source of these classes, with the five columns."""
    from pyspark.sql.datasource import DataSource

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return short_name

        def schema(self) -> str:
            return SCHEMA

        def reader(self, schema: Any) -> Any:  # noqa: ARG002
            return reader()

        def streamReader(self, schema: Any) -> Any:  # noqa: ARG002, N802 - Spark's name
            return stream_reader()

        def writer(self, schema: Any, overwrite: bool) -> Any:  # noqa: ARG002
            return writer()

    return Source


def source(url: str, trigger: int) -> Any:
    """The data source ``plain``."""
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamReader,
        InputPartition,
        WriterCommitMessage,
    )
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            count = client(url).redis.zcard(IDS)
            return [InputPartition((0, count // 2)), InputPartition((count // 2, count))]

        def read(self, partition: Any) -> Iterator[Any]:
            import struct

            redis, (low, high) = client(url).redis, partition.value
            for start in range(low, high, PART):
                ids = redis.zrange(IDS, start, min(start + PART, high) - 1)
                rows = []
                for lid, value in zip(ids, redis.hmget(PACKED, ids), strict=True):
                    priority, queue, label = struct.unpack_from(">BHH", value)
                    at = 5 + queue
                    rows.append(
                        (int(lid), value[5:at], value[at : at + label], value[at + label :], priority)
                    )
                yield batch(zip(*rows, strict=True))

    class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        def initialOffset(self) -> dict[str, int]:  # noqa: N802
            return {"sequence": 0, "messages": 0}

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            pass

        def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: ARG002, N802
            self.commit(start)
            there = min(trigger, client(url).redis.zcard(IDS))
            return {"sequence": start["sequence"] + 1, "messages": there} if there else start

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:  # noqa: ARG002
            sequence, count = end["sequence"], end["messages"]
            client(url).repeat(_CLAIM, (IDS, claimed(sequence), META), (sequence, count))
            half = count // 2
            return [InputPartition((sequence, 0, half)), InputPartition((sequence, half, count))]

        def read(self, partition: Any) -> Iterator[Any]:
            sequence, low, high = partition.value
            for start in range(low, high, PART):
                ids = client(url).redis.lrange(claimed(sequence), start, min(start + PART, high) - 1)
                rows = list(client(url).hashes(ids))
                if len(rows) < min(PART, high - start) or not all(row[0] for row in rows):
                    raise ValueError("the claim is incomplete")
                numbers, queues, labels, bodies, priorities = zip(*rows, strict=True)
                yield batch(([*map(int, numbers)], queues, labels, bodies, [*map(int, priorities)]))

        def commit(self, end: dict[str, int]) -> None:
            if end["sequence"]:
                client(url).repeat(_RECEIVE, (claimed(end["sequence"]), META), (end["sequence"],))

    class Staged(WriterCommitMessage):
        def __init__(self, stage: str, script: str) -> None:
            self.stage, self.script = stage, script

    class Writer(DataSourceArrowWriter):
        def write(self, iterator: Any) -> Any:
            import uuid

            stage, redis = f"plain:stage:{uuid.uuid4().hex}", client(url).redis
            redis.sadd("plain:stages", stage)
            width = 1
            for each in iterator:
                columns = [column.to_pylist() for column in each.columns]
                width = len(columns)
                elements = columns[0] if width == 1 else [*chain.from_iterable(zip(*columns, strict=True))]
                for start in range(0, len(elements), width * PART):
                    redis.rpush(stage, *elements[start : start + width * PART])
            return Staged(stage, _PUBLISH_BODIES if width == 1 else _PUBLISH)

        def commit(self, messages: Any) -> None:
            for message in messages:
                client(url).repeat(message.script, (message.stage, IDS, META))
                client(url).redis.srem("plain:stages", message.stage)

    return data_source("plain", Reader, StreamReader, Writer)
