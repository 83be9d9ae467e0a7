"""Which peers there are, and in which environment each lives. Importing this imports none of them."""

from __future__ import annotations

from dataclasses import dataclass

#: The unit of all ratios.
UNIT = "raw list"
#: What the reads and writes of a call cost at least: no product.
FLOOR = "floor"
#: Its reader who is waked and then makes a call.
WAKED = "floor, waked"
#: How the work is called that is the floor of another one, done on the same keys by a bare client.
BARE = "floor: "
#: Between the floor and mqredis (bench/ladder.py): our scripts with a bare client, our client with bare functions.
SCRIPTS, CLIENT = "scripts alone", "client alone"
#: Ours with a prefetch, as the best peer of receiving singly has one.
PREFETCH = "mqredis, prefetch"
#: The least that keeps the promises, with a bare client (bench/kept.py).
PROMISES = "promises alone"
#: The same with the least that a client of ours must do.
HANDLE = "promises, handle"


@dataclass(frozen=True)
class Entry:
    """Where the adapter of a peer is found."""

    module: str
    cls: str
    environment: str = "peers"
    quick: bool = False
    #: Which part of the messages it is given: the slow ones would take all the time.
    share: float = 1.0
    #: Measured as a worker: it drains a queue, and is waked from its sleep.
    worker: bool = False
    #: A step between the floor and mqredis, of which only the rates on one core are asked.
    step: bool = False
    #: Leaves in the server what another one leaves, so its memory is not asked.
    alike: bool = False


PEERS: dict[str, Entry] = {
    UNIT: Entry("raw", "RawList", quick=True),
    "raw floor": Entry("raw", "RawFloor", alike=True),
    "raw unreliable": Entry("raw", "RawUnreliable", alike=True),
    "raw asyncio": Entry("raw", "RawAsyncio", alike=True),
    "raw asyncio, 20 tasks": Entry("raw", "RawAsyncio20", alike=True),
    FLOOR: Entry("floor", "Floor", quick=True),
    "floor, redis-py": Entry("floor", "FloorRedisPy", alike=True),
    "floor, records": Entry("floor", "FloorRecords", quick=True),
    "floor, asyncio": Entry("floor", "FloorAsyncio", quick=True, alike=True),
    "floor, asyncio, 20 tasks": Entry("floor", "FloorAsyncio20", quick=True, alike=True),
    PROMISES: Entry("ladder", "Promises", quick=True, step=True),
    HANDLE: Entry("handle", "PromisesHandle", quick=True, step=True),
    SCRIPTS: Entry("ladder", "Scripts", quick=True, step=True),
    f"{SCRIPTS}, transactions": Entry("ladder", "ScriptsTransactions", quick=True, step=True),
    f"{SCRIPTS}, asyncio": Entry("ladder", "ScriptsAsyncio", quick=True, step=True),
    f"{SCRIPTS}, asyncio, 20 tasks": Entry("ladder", "ScriptsAsyncio20", quick=True, step=True),
    CLIENT: Entry("ladder", "Client", quick=True, step=True),
    f"{CLIENT}, asyncio": Entry("ladder", "ClientAsyncio", quick=True, step=True),
    f"{CLIENT}, asyncio, 20 tasks": Entry("ladder", "ClientAsyncio20", quick=True, step=True),
    "streams": Entry("streams", "Streams", quick=True),
    "mqredis": Entry("mqredis_sync", "Mqredis", quick=True),
    PREFETCH: Entry("mqredis_sync", "MqredisPrefetch", alike=True),
    "mqredis, receive": Entry("mqredis_sync", "MqredisReceive", alike=True),
    "mqredis, two calls": Entry("mqredis_sync", "MqredisTwoCalls", alike=True),
    "mqredis, transactions": Entry("mqredis_sync", "MqredisTransactions", quick=True),
    "mqredis asyncio": Entry("mqredis_asyncio", "MqredisAsyncio", quick=True, alike=True),
    "mqredis asyncio, 20 tasks": Entry("mqredis_asyncio", "MqredisAsyncio20", quick=True, alike=True),
    "mqredis kombu transport": Entry("mqredis_kombu", "MqredisKombu", share=0.5),
    "dramatiq": Entry("dramatiq", "Dramatiq", quick=True),
    "dramatiq, prefetch": Entry("dramatiq", "DramatiqPrefetch", alike=True),
    "kombu": Entry("kombu", "Kombu", share=0.5, quick=True),
    "celery": Entry("celery", "Celery", share=0.5),
    "huey": Entry("huey", "Huey"),
    "taskiq, stream": Entry("taskiq", "TaskiqStream", share=0.5),
    "taskiq, list": Entry("taskiq", "TaskiqList", share=0.5),
    "bullmq": Entry("bullmq", "BullMQ", share=0.5),
    "rq": Entry("rq", "RQ", share=0.2),
    "saq": Entry("saq", "SAQ", "saq", share=0.5),
    "arq": Entry("arq", "Arq", "arq", share=0.5),
    "mqredis worker": Entry("mqredis_worker", "MqredisWorker", quick=True, worker=True),
    "mqredis worker, prefetch": Entry("mqredis_worker", "MqredisWorkerPrefetch", quick=True, worker=True),
    "mqredis worker, lists": Entry("mqredis_worker", "MqredisWorkerList", quick=True, worker=True),
    "dramatiq worker": Entry("dramatiq", "DramatiqWorker", share=0.5, worker=True),
    "dramatiq worker, prefetch": Entry("dramatiq", "DramatiqWorkerPrefetch", quick=True, worker=True),
    "taskiq worker": Entry("taskiq", "TaskiqWorker", share=0.5, worker=True),
    "huey worker": Entry("huey", "HueyWorker", worker=True),
    "celery worker": Entry("celery", "CeleryWorker", share=0.2, worker=True),
    "bullmq worker": Entry("bullmq", "BullMQWorker", share=0.3, worker=True),
    "rq worker": Entry("rq", "RQWorker", share=0.1, worker=True),
    "saq worker": Entry("saq", "SAQWorker", "saq", share=0.3, worker=True),
    "arq worker": Entry("arq", "ArqWorker", "arq", share=0.05, worker=True),
}
#: Not peers: parts of the benchmark that need a process of their own.
PARTS: dict[str, Entry] = {
    WAKED: Entry("floor", "FloorReader"),
    "mqredis, growth": Entry("mqredis_growth", "MqredisGrowth"),
    "mqredis, sharded": Entry("mqredis_sync", "MqredisSharded"),
}
