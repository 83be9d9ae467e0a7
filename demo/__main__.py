"""``python -m demo``: a year of departures through the broker, and the proof that none was lost.

    producers -> departures (transactional, quota) -> consumers -> bookings (transactional)
    producers -> board (priorities: the later the flight the sooner it is read) -> announcer

MSMQ has no priorities inside transactions, and it refuses to receive in a transaction from a queue that is
not transactional. So the flights are booked through a transactional queue, and the late ones are also
announced through a queue with priorities.

Exit code: 0 if output and input agree, 1 if not, 2 if the demo cannot run here.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import shutil
import sys
import time
from collections import Counter
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import mqredis
from demo import flights, work
from mqredis.embedded import find_servers

QUOTA = 20_000  # messages that may wait in the queue of departures
DIRECTORY = Path(__file__).resolve().parents[1] / "build" / "demo"  # of the private server
PROGRESS = 5.0  # seconds between two lines of progress


class Demo:
    """One run: its processes, their reports, and the messages that are printed meanwhile."""

    def __init__(self, qm: mqredis.QueueManager, limit: int, producers: int, consumers: int) -> None:
        self.qm = qm
        self.limit = limit
        self.producers = producers
        self.consumers = consumers
        self.context = multiprocessing.get_context("spawn")
        self.running: dict[Connection, tuple[str, BaseProcess]] = {}
        self.count: Counter[str] = Counter()
        self.board: tuple[Counter[int], int, list[str]] = (Counter(), 0, [])
        self.full: list[tuple[str, int]] = []
        self.victim: Connection | None = None
        self.started = time.monotonic()
        self.told = self.started

    def say(self, text: str) -> None:
        """Print an event with its time."""
        print(f"[{time.monotonic() - self.started:5.1f} s] {text}", flush=True)

    def start(self, name: str, target: Any, *args: Any) -> Connection:
        """Start a process that reports through a pipe of its own."""
        here, there = self.context.Pipe()
        process = self.context.Process(target=target, args=(there, *args), name=name, daemon=True)
        process.start()
        there.close()
        self.running[here] = (name, process)
        return here

    def pump(self) -> None:
        """Read the reports of the processes for up to a second."""
        for pipe in wait(list(self.running), timeout=1.0):
            assert isinstance(pipe, Connection)
            try:
                while pipe in self.running and pipe.poll():
                    self.take(pipe, *pipe.recv())
            except (EOFError, ConnectionResetError):
                name, process = self.running.pop(pipe)
                process.join()
                raise SystemExit(f"{name} died with exit code {process.exitcode}") from None
        if time.monotonic() - self.told >= PROGRESS:
            self.told = time.monotonic()
            waiting = self.qm.queue_info(work.DEPARTURES).messages
            self.say(
                f"sent {self.count['sent']:,}  booked {self.count['booked']:,}  "
                f"announced {self.count['announced']:,}  waiting {waiting:,}"
            )

    def take(self, pipe: Connection, what: str, *values: Any) -> None:
        """Act on one report. The functions of demo/work.py say which they send."""
        name, process = self.running[pipe]
        if what == "full":
            self.full.append((values[0], values[1]))
            self.say(
                f"{name} refused: QueueQuotaExceeded, {QUOTA:,} messages are in the queue; the producer pauses"
            )
        elif what == "sent":
            self.count["sent"] += values[0]
            self.count["refused"] += values[1]
            self.count["recovered"] += values[1] > 0
        elif what == "booked":
            self.count["booked"] += values[0]
            self.count["again"] += values[1]
        elif what == "lapsed":
            self.count["lapsed"] += 1
            self.say(f"{name}: its transaction lapsed before the commit and left no trace; it begins another")
        elif what == "announced":
            self.count["announced"] += values[0]
        elif what == "board":
            self.board = values
        elif what == "holding":
            process.kill()
            process.join()
            del self.running[pipe]
            self.count["killed with"] = values[0]
            self.say(
                f"{name} killed with SIGKILL inside its transaction: {values[0]} flights received and "
                f"booked, not committed; when the lease of {work.LEASE:g} s is over they go to the others"
            )
        elif what == "done":
            process.join()
            del self.running[pipe]

    def alive(self, kind: str) -> list[Connection]:
        """The pipes of the processes of one kind that still run."""
        return [pipe for pipe, (name, _) in self.running.items() if name.startswith(kind)]

    def run(self) -> None:
        """Run all steps until all queues are empty."""
        for part in range(self.producers):
            self.start(f"producer {part + 1}", work.produce, part, self.producers, self.limit)
        self.say(
            f"{self.producers} producers send departures, {work.BATCH} a transaction; no consumer runs yet"
        )
        while self.alive("producer") and len(self.full) < self.producers:
            self.pump()
        self.find()
        self.start("announcer", work.announce)
        for number in range(self.consumers):
            self.start(f"consumer {number + 1}", work.book, 40 if number == 0 else None)
        self.say(f"{self.consumers} consumers and an announcer start to read")
        while self.alive("producer"):
            self.pump()
        self.say(f"all {self.count['sent']:,} departures are sent")
        for pipe in self.running:
            pipe.send("no more will come")
        while self.running:
            self.pump()
        self.say(f"all {self.count['booked']:,} departures are booked")

    def find(self) -> None:
        """Find one flight among the thousands that wait, by its lookup id, and leave it there."""
        key, lookup_id = max(self.full)
        with self.qm.open(work.DEPARTURES, access=mqredis.Access.PEEK) as departures:
            began = time.perf_counter()
            message = departures.peek_by_lookup_id(lookup_id)
            took = (time.perf_counter() - began) * 1e3
        verdict = "the right flight" if message.text == key else f"WRONG, expected {key}"
        self.say(f"browser finds lookup id {lookup_id:#018x} in {took:.1f} ms: {message.text}, {verdict}")
        self.count["found"] += message.text == key

    def prove(self) -> bool:
        """Compare every booking, and what the board has shown, with the file."""
        began = time.monotonic()
        expected = Counter(flight.key for flight in flights.read(limit=self.limit))
        late = Counter(flight.key for flight in flights.read(limit=self.limit) if flight.late)
        booked: Counter[str] = Counter()
        with self.qm.open(work.BOOKINGS) as bookings:
            booked.update(message.text for message in bookings.browse())
        self.say(f"read {booked.total():,} bookings back in {time.monotonic() - began:.1f} s")
        findings = self.qm.doctor().findings
        priorities, disorder, keys = self.board
        announced, count = Counter(keys), self.count
        checks = {
            f"bookings lost: {(expected - booked).total()}": not expected - booked,
            f"bookings that are double or unexpected: {(booked - expected).total()}": not booked - expected,
            f"late flights lost on the board: {(late - announced).total()}": not late - announced,
            f"late flights that are double or unexpected on the board: {(announced - late).total()}": not announced
            - late,
            f"batches of the board out of order: {disorder}": not disorder,
            "the browser has found its flight": self.count["found"] == 1,
            f"findings of the doctor in the store: {len(findings)}": not findings,
            f"sends refused by the quota: {count['refused']:,}; batches that were sent later: {count['recovered']:,}": (
                count["recovered"] > 0
            ),
            f"flights locked by the killed consumer: {count['killed with']}; booked by others: {count['again']}": (
                # The messages of lapsed transactions were delivered again, too.
                0 < count["killed with"] <= count["again"]
                and (count["killed with"] == count["again"] or count["lapsed"] > 0)
            ),
        }
        by_priority = "  ".join(f"{level}: {n:,}" for level, n in sorted(priorities.items(), reverse=True))
        print(f"\nannounced by priority: {by_priority}")
        for text, good in checks.items():
            print(f"  {'ok ' if good else 'BAD'}  {text}")
        return all(checks.values())


def main() -> int:
    """Run the demo in a directory of its own, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flights", type=int, default=flights.ROWS, help="only so many, at least 50,000")
    parser.add_argument("--producers", type=int, default=2)
    parser.add_argument("--url", help="a Redis to use instead of a private one; leaves a queue manager there")
    parser.add_argument("--consumers", type=int, default=3, help="at least 2: one of them will be killed")
    options = parser.parse_args()
    if options.flights < 50_000 or options.consumers < 2 or options.producers < 1:
        parser.error("the whole story needs 50,000 flights, 1 producer and 2 consumers")
    try:
        flights.data_file()
    except flights.DataMissing as error:
        print(error, file=sys.stderr)
        return 2
    if not (options.url or find_servers()):
        print(
            "the processes of the demo need a server: install redis-server, or name one with --url",
            file=sys.stderr,
        )
        return 2
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    # The queues are kept, so that they can be inspected.
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    # Every process of the demo, this one included, finds the broker through the environment.
    os.environ["MQREDIS_DIR"] = str(DIRECTORY)
    os.environ.pop("MQREDIS_URL", None)
    if options.url:
        os.environ["MQREDIS_URL"] = options.url
    os.environ["MQREDIS_MANAGER"] = f"demo-{os.getpid()}" if options.url else "demo"
    with mqredis.connect() as qm:
        qm.create_queue(work.DEPARTURES, transactional=True, quota_messages=QUOTA)
        qm.create_queue(work.BOOKINGS, transactional=True)
        qm.create_queue(work.BOARD)
        demo = Demo(qm, options.flights, options.producers, options.consumers)
        demo.run()
        seconds = time.monotonic() - demo.started
        good = demo.prove()
    count = demo.count
    operations = 3 * count["sent"] + 2 * count["announced"]
    print(
        f"\n{count['sent']:,} flights sent, received and booked, {count['announced']:,} late ones announced "
        f"in {seconds:.1f} s: {count['sent'] / seconds:,.0f} flights a second through every stage, "
        f"{operations / seconds:,.0f} messages sent or taken a second"
    )
    print("Output and input agree: nothing lost, nothing twice." if good else "OUTPUT AND INPUT DISAGREE.")
    where = f"--url {options.url}" if options.url else f"--url embedded://{DIRECTORY}"
    # By its path, since the environment of this interpreter need not be active.
    command = os.path.relpath(Path(sys.executable).with_name("mqredis"))
    print(
        f"Look at its queues in a browser: {command} console {where} --manager {os.environ['MQREDIS_MANAGER']}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
