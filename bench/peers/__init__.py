"""Which peers there are, and in which environment each lives. Importing this imports none of them."""

from __future__ import annotations

from dataclasses import dataclass

# All ratios are to this peer: LPUSH, LMOVE and LREM through redis-py and hiredis.
UNIT = "raw list"


@dataclass(frozen=True)
class Entry:
    """Where the adapter of a peer is found, and what it is asked to do."""

    module: str
    cls: str
    works: tuple[str, ...]
    """Methods of the adapter (bench/peers/base.py) that are measured; bench/report.py has their titles."""
    environment: str = "peers"
    """Its requirements are in bench/requirements-<environment>.txt; for "node" in bench/package.json."""
    share: float = 1.0
    """The part of the messages that it handles: a slow peer would take all the time."""
    settings: str = ""
    """What differs from its defaults, for the report."""
    acknowledges: bool = True
    """A consumer that dies between receiving and acknowledging leaves the message in the queue."""


SINGLE, BATCH, MOVE = ("send", "receive"), ("send_batch", "receive_batch"), ("transact",)
LOOPS = (*SINGLE, *BATCH, *MOVE)

PEERS = {
    UNIT: Entry("raw", "RawList", LOOPS),
    "streams": Entry("raw", "Streams", (*SINGLE, *BATCH), settings="entries are deleted when acknowledged"),
    "raw asyncio": Entry("raw", "RawAsyncio", SINGLE),
    "raw asyncio, 20 tasks": Entry("raw", "RawAsyncio20", SINGLE),
    "mqredis": Entry("mqredis", "Mqredis", LOOPS, settings="lock; the call that locks the next one commits"),
    "mqredis asyncio": Entry("mqredis", "MqredisAsyncio", SINGLE),
    "mqredis asyncio, 20 tasks": Entry("mqredis", "MqredisAsyncio20", SINGLE),
    "dramatiq": Entry("dramatiq", "Dramatiq", SINGLE, settings="prefetch 1"),
    "kombu": Entry("kombu", "Kombu", SINGLE, share=0.5),
    "rq": Entry(
        "rq", "RQ", (*SINGLE, "send_batch"), share=0.2, settings="result_ttl 0; SimpleWorker runs the job"
    ),
    "saq": Entry("saq", "SAQ", SINGLE, "saq", 0.5, "ttl -1"),
    "huey": Entry("huey", "Huey", SINGLE, acknowledges=False),
    "taskiq": Entry("taskiq", "Taskiq", SINGLE, share=0.5, settings="stream broker, reads 100 at once"),
    "bullmq": Entry("bullmq.mjs", "", (*SINGLE, "send_batch"), "node", 0.5, "npm package; removeOnComplete"),
}
WORKERS = {
    UNIT: Entry("raw", "RawList", ("drain",)),
    "mqredis worker": Entry(
        "mqredis", "MqredisWorker", ("drain",), settings="one thread, one message per call"
    ),
    "mqredis worker, prefetch 32": Entry(
        "mqredis", "MqredisWorkerPrefetch", ("drain",), settings="one thread"
    ),
    "dramatiq worker": Entry("dramatiq", "DramatiqWorker", ("drain",), share=0.5, settings="8 threads"),
    "huey worker": Entry("huey", "HueyWorker", ("drain",), settings="one thread", acknowledges=False),
    "celery worker": Entry("celery", "CeleryWorker", ("drain",), share=0.2, settings="solo pool, acks_late"),
    "rq worker": Entry("rq", "RQWorker", ("drain",), share=0.1, settings="SimpleWorker, result_ttl 0"),
    "saq worker": Entry("saq", "SAQWorker", ("drain",), "saq", 0.3, "concurrency 10, ttl -1"),
    "arq worker": Entry("arq", "ArqWorker", ("drain",), "arq", 0.05, "10 jobs at a time, keep_result 0"),
    "taskiq worker": Entry("taskiq", "TaskiqWorker", ("drain",), share=0.5, settings="one process"),
    "bullmq worker": Entry(
        "bullmq.mjs", "", ("drain",), "node", 0.5, "npm package; concurrency 1, removeOnComplete"
    ),
}
