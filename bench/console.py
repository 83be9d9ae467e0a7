"""What the console costs the broker: ``python -m bench.console [--viewers 10] [--queues 500] [--rate 2000]``.

The first part times the calls of the overview of 1,000 queues, and those of other pages. The second part sends and
receives messages at a steady rate, without viewers of the console, with viewers of the overview, and with viewers of
all pages that are updated by themselves, in turn, and tells the CPU time of the server and its calls. A viewer does
what a browser does: it follows the events of its page, and gets the page after each, as ``#live`` in
mqredis/console/templates/macros.html says (``view``).
"""

from __future__ import annotations

import argparse
import http.client
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

import redis

import mqredis
from bench.messages import body
from bench.server import Server
from mqredis.commands import inspection
from mqredis.steps import Steps, perform, procedure

# Queues of the overview that is timed, and messages in each.
OVERVIEW_QUEUES, MESSAGES = 1000, 20
# Pages that are updated by themselves, but for those of one queue and of the workers.
LIVE = ("/", "/failures", "/scheduled", "/in-flight", "/schedules", "/clients", "/topics")
# The pages that viewers look at in a measurement.
WATCHED = {"viewers of the overview": LIVE[:1], "viewers of all live pages": LIVE}
# Priorities of the messages in each queue, and whether a reader holds some of them.
CONTENTS: dict[str, tuple[Sequence[int], bool]] = {
    "one priority, nothing locked": ((3,), False),
    "three priorities, two messages locked": ((2, 3, 6), True),
    "eight priorities, two messages locked": (range(8), True),
}


def timed(server: Server, name: str, calls: Callable[[], Iterator[object]], rounds: int) -> None:
    """Print the CPU time that the server needs for each call; ``calls`` makes one whenever it is asked for the next.

    The time of the clock, as the slow log has it, would count the other programs of the machine, too.
    """
    raw = redis.Redis.from_url(server.url)
    process = raw.info("server")["process_id"]
    raw.close()
    spent = Path(f"/proc/{process}/task/{process}/schedstat")  # of the thread that runs commands
    times: list[float] = []
    for _ in calls():
        pass
    for _ in range(rounds):
        before = int(spent.read_text().split()[0])
        for _ in calls():
            after = int(spent.read_text().split()[0])
            times.append((after - before) / 1e6)
            before = int(spent.read_text().split()[0])
    times.sort()
    print(
        f"{name}: {len(times) / rounds:.0f} calls, {sum(times) / rounds:.0f} ms of CPU in all; each "
        f"{median(times):.1f} ms median, {times[len(times) * 9 // 10]:.1f} for 9 in 10, {times[-1]:.1f} at most"
    )


def parts_of_overview(qm: mqredis.QueueManager, names: Sequence[str]) -> Iterator[object]:
    """The calls of ``qm.overview()``, one after the other."""

    @procedure
    def part(at: int) -> Steps[inspection.Overview]:
        call = inspection.overview(qm.context.keys, names[at : at + inspection.QUEUES])
        return (yield from perform(call))

    at = 0
    while at < len(names):
        at += qm.run(part(at)).done
        yield at


def overview(rounds: int) -> None:
    """Time the calls of the overview."""
    for title, (priorities, locked) in CONTENTS.items():
        with Server() as server, mqredis.connect(server.url) as qm:
            chance = random.Random(5)
            for n in range(OVERVIEW_QUEUES):
                qm.create_queue(f"queue-{n:04}")
                queue = qm.open(f"queue-{n:04}")
                queue.send_many(
                    mqredis.Outgoing(body(200), priority=chance.choice(priorities)) for _ in range(MESSAGES)
                )
                if locked:
                    queue.lock_many(2, timeout=0)
            names = [info.name for info in qm.queues()]
            timed(server, title, partial(parts_of_overview, qm, names), rounds)


def pages(rounds: int) -> None:
    """Time the other pages, each with as many rows as it shows at most."""
    with Server() as server, mqredis.connect(server.url) as qm:
        for name in ("orders", "large", "locked", "late"):
            qm.create_queue(name)
        small = [mqredis.Outgoing(body(200), properties={"n": n, "region": "EU"}) for n in range(250)]
        for _ in range(4):
            qm.open("orders").send_many(small)
            qm.open("locked").send_many(small)
            qm.open("late").send_many([each.replace(delay=3600) for each in small])
            qm.open("large").send_many([body(4000)] * 250)
        locked = qm.open("locked")
        for _ in range(400):
            locked.lock(timeout=0)
        rare = "region LIKE '%U_x%' OR n > 249"
        for title, call in (
            ("messages, none matches", lambda: qm.messages("orders", selector=rare)),
            ("messages of 4,000 bytes", lambda: qm.messages("large", limit=256)),
            ("locks", lambda: qm.locks("locked", limit=256)),
            ("locks, none matches", lambda: qm.locks("locked", selector=rare)),
            ("delayed messages", lambda: qm.scheduled("late", selector="n >= 0", limit=256)),
        ):
            timed(server, title, partial(once, call), rounds)


def once(call: Callable[[], object]) -> Iterator[object]:
    """Make a call."""
    yield call()


def times(rounds: int) -> None:
    """Time the calls."""
    print(f"the overview of {OVERVIEW_QUEUES:,} queues:")
    overview(rounds)
    print("a page of:")
    pages(rounds)


# ---- load ----------------------------------------------------------------------------------------


def traffic(url: str, queues: int, rate: int, batch: int, stopped: Event) -> None:
    """Send messages to each queue in turn, and receive them from the one that is half of them behind.

    A batch of 1 is sent and received by calls for single messages.
    """
    with mqredis.connect(url) as qm:
        opened = [qm.open(f"queue-{n:04}") for n in range(queues)]
        text = body(200)
        start, step = time.monotonic(), 0
        while not stopped.wait(max(0.0, start + step * batch / rate - time.monotonic())):
            target, source = opened[step % queues], opened[(step - queues // 2) % queues]
            if batch == 1:
                target.send(text)
            else:
                target.send_many([text] * batch)
            if step >= queues // 2:
                source.receive(0) if batch == 1 else source.receive_many(batch, 0)
            step += 1


def view(url: str, path: str, stopped: threading.Event) -> None:
    """Follow a page as a browser does."""
    place = urlsplit(url).netloc
    events, pages = (
        http.client.HTTPConnection(place, timeout=60),
        http.client.HTTPConnection(place, timeout=60),
    )
    events.request("GET", "/m/default/events")
    stream = events.getresponse()
    while not stopped.is_set():
        line = stream.readline()
        if line.startswith(b"event: tick"):
            pages.request("GET", f"/m/default{path}", headers={"hx-request": "true"})
            page = pages.getresponse()
            page.read()
            if page.status != 200:
                raise SystemExit(f"the console answers {page.status}")
    events.close()
    pages.close()


@contextmanager
def viewers(url: str, count: int, paths: Sequence[str]) -> Iterator[None]:
    """So many viewers, who look at these pages in turn, while a ``with`` block lasts."""
    stopped = threading.Event()
    threads = [
        threading.Thread(target=view, args=(url, paths[n % len(paths)], stopped), daemon=True)
        for n in range(count)
    ]
    for thread in threads:
        thread.start()
    yield
    stopped.set()
    for thread in threads:
        thread.join()


class Cost(NamedTuple):
    """The work of a server in a second."""

    messages: float
    calls: float
    cpu: float
    """CPU time in percent of one core."""


def measured(server: Server, qm: mqredis.QueueManager, seconds: float) -> Cost:
    """Let the load run for some seconds."""
    sent = sum(depth.total_in for depth in qm.overview())
    calls, before, start = server.script_calls(), server.cpu(), time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - start
    cpu, calls = server.cpu() - before, server.script_calls() - calls
    sent = sum(depth.total_in for depth in qm.overview()) - sent
    return Cost(sent / passed, calls / passed, cpu / passed * 100)


def fill(qm: mqredis.QueueManager) -> None:
    """Store what the live pages show: 1,000 failed, 1,000 delayed and 1,000 locked messages, schedules and topics."""
    operator = qm.operator("bench")
    for n in range(10):
        qm.create_queue(f"failing-{n}", retry=mqredis.RetryPolicy(immediate=0, cycles=0))
        failing = qm.open(f"failing-{n}")
        errors = [f"ValueError: order {place} of customer {n} has no address" for place in range(100)]
        failing.send_many(
            mqredis.Outgoing(body(200), properties={"failure_error": error}) for error in errors
        )
        for _ in errors:
            failing.lock(0).abort()
        qm.create_queue(f"held-{n}")
        held = qm.open(f"held-{n}")
        held.send_many([body(200)] * 100)
        held.send_many([mqredis.Outgoing(body(200), delay=86_400)] * 100)
        for _ in range(5):
            held.lock_many(20, timeout=0, lease=3600)
        operator.create_schedule(f"schedule-{n}", 3600.0, f"held-{n}", body(200))
        qm.create_queue(f"topic-{n}", topic=True)
    for n in range(50):
        qm.subscribe(f"topic-{n % 10}", f"held-{n // 10}")


def load(count: int, queues: int, rate: int, batch: int, seconds: float, rounds: int) -> None:
    """Measure viewers alone; then with messages, without viewers and with them in turn."""
    context = get_context("spawn")
    with Server() as server, mqredis.connect(server.url) as qm:
        for n in range(queues):
            qm.create_queue(f"queue-{n:04}")
        fill(qm)
        command = [sys.executable, "-m", "mqredis", "console", "--url", server.url, "--port", "0"]
        console = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert console.stdout is not None
        url = console.stdout.readline().split()[-1]
        stopped = context.Event()
        sender = context.Process(target=traffic, args=(server.url, queues, rate, batch, stopped))
        print(f"{queues} queues, {count} viewers, messages in batches of {batch}")
        try:
            for title, paths in WATCHED.items():
                with viewers(url, count, paths):
                    show(f"{title}, no messages", measured(server, qm, seconds))
            sender.start()
            time.sleep(1 + queues // 2 * batch / rate)  # from then on as many messages leave as come
            for _ in range(rounds):
                if not sender.is_alive():
                    raise SystemExit("the sender has failed")
                show("messages, no viewers", without := measured(server, qm, seconds))
                for title, paths in WATCHED.items():
                    with viewers(url, count, paths):
                        show(f"messages and {title}", seen := measured(server, qm, seconds))
                    print(f"more with {title}: {seen.cpu - without.cpu:.1f} % of a core")
        finally:
            stopped.set()
            console.terminate()
            console.wait()
            if sender.pid is not None:
                sender.join()


def show(title: str, cost: Cost) -> None:
    """Print the work of a server in a second."""
    print(
        f"{title}: {cost.messages:,.0f} messages, {cost.calls:,.1f} calls a second, {cost.cpu:.1f} % of a core"
    )


def main() -> None:
    """Measure both parts."""
    parser = argparse.ArgumentParser(prog="python -m bench.console", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30, help="length of each measurement")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--queues", type=int, default=500)
    parser.add_argument("--rate", type=int, default=2000, help="messages a second")
    parser.add_argument("--batch", type=int, default=1, help="messages of one call")
    parser.add_argument("--load-only", action="store_true", help="leave out the first part")
    given = parser.parse_args()
    if not given.load_only:
        times(20 * given.rounds)
    load(given.viewers, given.queues, given.rate, given.batch, given.seconds, given.rounds)


if __name__ == "__main__":
    main()
