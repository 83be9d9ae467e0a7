"""``python -m demo.pipelines``: the ready pipelines of ``mqredis[spark]`` on real flights; none is lost.

    Redis list -> migrate -> departures -> a reader -> departures;journal; the cancelled ones -> system$;deadletter
    journal, dead letters -> analyse -> tables, a page
                          -> archive -> Parquet -> replay, those from JFK -> again

Exit code: 0 if output and input agree, or if Java or PySpark is missing, which is said; 1 if they disagree.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import redis

import mqredis
from demo import flights
from mqredis.embedded import find_servers, join

QUEUE, JOURNAL, DEAD, AGAIN = "departures", "departures;journal", "system$;deadletter", "again"
FLIGHTS = 50_000
JAVA = 17
REPORT = Path("build/demo-report")


def missing() -> str:
    """Why the pipelines cannot run here; empty if they can."""
    java = shutil.which("java")
    if java is None:
        return f"Java {JAVA} or newer is not on PATH"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < JAVA:
        return f"they need Java {JAVA} or newer; `java -version` says: {said.splitlines()[0] if said else 'nothing'}"
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        return "PySpark is not installed: pip install 'mqredis[spark]'"
    if not find_servers():
        return "there is no redis-server"
    return ""


class Story:
    """Prints the progress of the pipelines, and checks their results."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.good = True

    def say(self, text: str) -> None:
        """Print an event with its time."""
        print(f"[{time.monotonic() - self.started:5.1f} s] {text}", flush=True)

    def check(self, text: str, good: bool) -> None:
        """Print a line of the result."""
        print(f"  {'ok ' if good else 'BAD'}  {text}")
        self.good = self.good and good


def text_of(flight: flights.Flight) -> bytes:
    """A flight as an old application would have put it into a Redis list."""
    return json.dumps({"key": flight.key, "route": flight.route, "delay": flight.delay}).encode()


def work_off(qm: mqredis.QueueManager) -> None:
    """A reader of the queue: it gives cancelled flights back, and the broker puts those aside."""
    with qm.open(QUEUE) as queue:
        held: list[mqredis.LockedMessage] = []
        while True:
            try:
                found = queue.lock_many(256, 0, settle=held)
            except mqredis.IoTimeout:
                return
            held = []
            for message in found:
                if json.loads(message.body)["delay"] is None:
                    message.abort()
                else:
                    held.append(message)


def table(rows: list[dict[str, Any]], most: int = 6) -> None:
    """The first rows of a table."""
    for row in rows[:most]:
        print("      " + "  ".join(f"{name} {value}" for name, value in row.items()))


def run(qm: mqredis.QueueManager, url: str, folder: Path, limit: int) -> bool:
    """All four pipelines, one after the other."""
    from mqredis.spark.pipelines import analyse, archive, migrate, replay
    from mqredis.spark.pipelines.command import session

    story = Story()
    rows = list(flights.read(limit=limit))
    bodies = [text_of(flight) for flight in rows]
    cancelled = sum(flight.delay is None for flight in rows)
    from_jfk = sum(flight.route.startswith("JFK") for flight in rows)
    qm.create_queue(QUEUE, journaling=True, retry=mqredis.RetryPolicy(immediate=0, final="dead_letter"))
    qm.create_queue(AGAIN)
    with redis.Redis.from_url(
        url
    ) as other:  # the list belongs to an application that knows nothing of mqredis
        for at in range(0, len(bodies), 1000):
            other.lpush("flights", *bodies[at : at + 1000])
    story.say(f"{len(bodies):,} flights lie in a Redis list")
    where: dict[str, Any] = {"url": url, "manager": qm.name}
    moved = migrate("list", "flights", QUEUE, source_url=url, **where)
    more = migrate("list", "flights", QUEUE, source_url=url, **where)
    story.say(f"migrate: {moved:,} of them are in the queue {QUEUE}; a second time: {more}")
    work_off(qm)
    story.say("a reader has worked them off; cancelled ones it gave back, and the broker put them aside")
    spark = session()
    try:
        spark.sparkContext.setLogLevel("ERROR")
        tables = analyse(spark, REPORT, **where)
        story.say(f"analyse: {REPORT}/index.html")
        for name in ("queues", "latency", "dead letters"):
            print(f"    {name}")
            table(tables[name])
        lake = str(folder / "lake")
        archive(spark, lake, **where)
        kept = spark.read.parquet(lake)
        counts = {row["queue"]: row["count"] for row in kept.groupBy("queue").count().collect()}
        story.say(f"archive: {sum(counts.values()):,} messages in Parquet, by day and queue")
        condition = "get_json_object(cast(body AS STRING), '$.route') LIKE 'JFK%'"
        sent = replay(spark, lake, "jfk", queue=AGAIN, where=condition, **where)
        story.say(f"replay: {sent:,} flights from JFK are in the queue {AGAIN}")
        twice = replay(spark, lake, "jfk", queue=AGAIN, where=condition, **where)
        archived = sorted(bytes(row.body) for row in kept.select("body").collect())
    finally:
        spark.stop()
    left = {name: qm.queue_info(name).messages for name in (QUEUE, JOURNAL, DEAD)}
    again = [message.body for message in qm.open(AGAIN).browse()]
    print()
    story.check(f"migrated: {moved:,} of {len(bodies):,}", moved == len(bodies) and more == 0)
    story.check(
        f"archived: {counts}",
        counts == {JOURNAL: len(bodies) - cancelled, DEAD: cancelled} and cancelled > 0,
    )
    story.check("the archive has the same messages as the list", archived == sorted(bodies))
    story.check(f"messages left in the queues: {left}", not any(left.values()))
    wanted = sorted(body for body, flight in zip(bodies, rows, strict=True) if flight.route.startswith("JFK"))
    story.check(
        f"replayed: {sent:,} of {from_jfk:,}; a second time: {twice}", sorted(again) == wanted and twice == 0
    )
    story.check("the doctor finds nothing wrong", not qm.doctor().findings)
    print("Output and input agree." if story.good else "OUTPUT AND INPUT DISAGREE.")
    return story.good


def main() -> int:
    """Run the pipelines on a server of their own."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.pipelines", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--flights", type=int, default=FLIGHTS, help=f"only the first so many of {flights.ROWS:,}"
    )
    options = parser.parse_args()
    print("\nThe pipelines on Spark: migrate, analyse, archive, replay")
    lack = missing()
    if lack:
        print(f"  left out: {lack}")
        return 0
    # Spark's Python workers must be this one, and find this checkout.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    paths = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    with tempfile.TemporaryDirectory(prefix="mqredis-pipelines-") as folder:
        server = join(Path(folder) / "broker")
        try:
            with mqredis.connect(server.url, manager="flights") as qm:
                return 0 if run(qm, server.url, Path(folder), options.flights) else 1
        finally:
            server.leave()


if __name__ == "__main__":
    sys.exit(main())
