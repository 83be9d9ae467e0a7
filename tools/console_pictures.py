"""``python -m tools.console_pictures``: pictures of the console's pages, from flights of the demo, into docs/pictures.

``make pictures`` installs what it needs: redis-server, Chromium, Playwright and the data of the demo. docs/console.md
and the README show the pictures, ``console-<page>-<light or dark>.png`` with the names in :func:`scene`.
"""

from __future__ import annotations

import json
import logging
import random
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import uvicorn
from playwright.sync_api import sync_playwright

import mqredis
import mqredis.console
from demo import flights
from mqredis import Outgoing
from mqredis.worker import Retry, Worker

TARGET = Path(__file__).resolve().parents[1] / "docs" / "pictures"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MINUTE = 60.0

worker = Worker(heartbeat_seconds=1.0, name="booking")
ended = threading.Event()


@worker.consumer("bookings", name="book", retry=Retry(attempts=1))
def book(body: bytes) -> None:
    """Fail for some flights, as handlers fail."""
    flight = json.loads(body)
    if flight["delay"] is None:
        raise ValueError("a cancelled flight cannot be booked")
    if flight["delay"] > 120:
        raise TimeoutError("the bank did not answer within 5 s")


def event(flight: flights.Flight) -> Outgoing:
    """The message about one flight."""
    carrier = flight.key.split()[2][:2]
    return Outgoing(
        json.dumps({"flight": flight.key, "route": flight.route, "delay": flight.delay}),
        content_type="application/json",
        label="departure",
        correlation_id=flight.key,
        priority=flight.priority,
        properties={"route": flight.route, "carrier": carrier, "delay": flight.delay},
    )


@worker.consumer("payments", name="pay", concurrency=4)
def pay(_: bytes) -> None:
    """Wait for the bank until the pictures are taken."""
    ended.wait()


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    while not condition():
        pass


@contextmanager
def scene(manager: mqredis.QueueManager) -> Iterator[dict[str, str]]:
    """Queues in the middle of their work. Gives the paths of the pages, by the names of their pictures."""
    chance = random.Random(2013)
    events = [event(flight) for flight in islice(flights.read(), 4000)]
    for name in (
        "departures",
        "board",
        "gates",
        "crews",
        "baggage",
        "catering",
        "refunds",
        "bookings",
        "payments",
    ):
        manager.create_queue(name, quota_messages=20_000)
    manager.create_queue("ledger", transactional=True)
    manager.create_queue("flight-events", topic=True)
    manager.subscribe("flight-events", "gates")
    manager.subscribe("flight-events", "refunds", "delay > 120")
    with ExitStack() as stack:
        manager.update_queue("gates", trail=1.0)
        queues = {info.name: stack.enter_context(manager.open(info.name)) for info in manager.queues()}
        queues["departures"].send_many(events[:2400])
        later = [each.replace(delay=chance.uniform(10, 120) * MINUTE) for each in events[2400:2436]]
        queues["departures"].send_many(later)
        queues["board"].send_many(each for each in events if each.priority > 3)
        queues["bookings"].send_many(events[2500:2900])
        for name in ("gates", "crews", "baggage", "refunds"):
            queues[name].send_many(events[3000 : 3000 + chance.randrange(5, 600)])
        queues["payments"].send_many(events[2900:2903])
        stack.enter_context(worker.background(manager))
        stack.callback(ended.set)
        until(lambda: not manager.queue_info("bookings").messages and len(manager.workers()[0].running) == 3)
        ann = manager.operator("ann")
        ann.pause(consumer="pay", reason="the bank does not answer")
        ann.create_schedule("night report", "0 3 * * *", "departures", "report", timezone="America/New_York")
        ann.create_schedule("gate check", 900.0, "gates", "check", paused=True)
        ann.delete("refunds", selector="delay > 30", trash=86_400.0)
        ann.reschedule("departures", delay=3600.0, limit=5)
        ann.redrive("bookings;poison", limit=2)
        (left,) = queues["gates"].receive_many(1, 0)
        manager.update_queue("catering", put_inhibited=True)
        unit = stack.enter_context(manager.transaction(lease=10 * MINUTE))
        queues["ledger"].send("a fare", transaction=unit)
        locks = queues["departures"].lock_many(6, timeout=0, lease=10 * MINUTE)
        poison = stack.enter_context(manager.open("bookings;poison")).peek(timeout=0).lookup_id
        yield {
            "overview": "/",
            "queue": "/queue?name=departures",
            "messages": "/messages?queue=departures&selector=carrier+%3D+%27UA%27+AND+delay+%3E+60"
            "&columns=priority,arrived_at,prop:carrier,prop:delay,prop:route,correlation_id,size",
            "message": f"/message?queue=bookings%3Bpoison&id={poison}",
            "failures": "/failures",
            "in-flight": "/in-flight",
            "workers": "/workers",
            "schedules": "/schedules",
            "scheduled": "/scheduled",
            "trail": f"/trail?queue=gates&id={left.lookup_id:#018x}",
            "actions": "/actions",
            "topics": "/topics",
            "clients": "/clients",
            "doctor": "/doctor",
            "server": "/server",
            "purge": "/act/purge?queue=departures&selector=delay+IS+NULL",
        }
        for lock in locks:
            lock.abort()
        unit.abort()


@contextmanager
def console(url: str) -> Iterator[str]:
    """A console on this machine; gives the URL of its first page."""
    application = mqredis.console.app(
        {"flights": url}, access=lambda _: mqredis.console.Visitor("ann", "all")
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/m/flights"
        server.should_exit = True
        thread.join()


@contextmanager
def hosts() -> Iterator[None]:
    """The name of this machine is none of the pictures' business."""
    with patch("socket.gethostname", lambda: "airport-1"), patch("platform.node", lambda: "airport-1"):
        yield


def take(base: str, paths: dict[str, str]) -> None:
    """Take a picture of each page, in light and in dark."""
    program = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(color_scheme=scheme, viewport={"width": 1280, "height": 760})
            for name, path in paths.items():
                page.goto(base + path)
                if name == "doctor":
                    page.get_by_role("button", name="Examine").click()
                    page.get_by_role("heading", name="Durability").wait_for()
                # A traceback would show the paths of this machine.
                page.evaluate(
                    "document.querySelectorAll('details').forEach((each) => { each.open = false; })"
                )
                # Rates are shown from the second reading on.
                page.wait_for_timeout(2500 if name == "overview" else 0)
                page.screenshot(path=TARGET / f"console-{name}-{scheme}.png")
        browser.close()


def main() -> None:
    """Make all pictures."""
    logging.disable(logging.ERROR)  # the failures of the handler are wanted
    with tempfile.TemporaryDirectory() as directory, hosts():
        url = f"embedded://{directory}"
        settings = mqredis.Settings(client_name="bookings")
        with (
            mqredis.connect(url, settings=settings) as manager,
            scene(manager) as paths,
            console(url) as base,
        ):
            take(base, paths)
    print(*sorted(path.name for path in TARGET.glob("console-*.png")), sep="\n")


if __name__ == "__main__":
    main()
