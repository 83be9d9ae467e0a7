"""The work of the demo: produce, book, announce. Each runs in a process of its own.

A process talks to the one that started it through its own pipe and nothing else: with no lock shared between
them, killing one with SIGKILL cannot hurt the others. ``connect()`` has no URL here: every process finds the
broker of the demo through the environment, as a user's processes would.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection
from typing import TypeVar

import mqredis
from demo import flights
from mqredis.models import PropertyValue

# Transactional: departures are received and booked in one unit of work.
DEPARTURES = "departures"
# Transactional: one booking for each departure.
BOOKINGS = "bookings"
# Not transactional: late flights, most urgent first.
BOARD = "board"

BATCH = 256  # messages in one call, the most the broker takes
LEASE = 8.0  # seconds after which the transaction of a dead process is aborted
IDLE = 1.0  # seconds a reader waits before it asks whether more will come
PAUSE, PAUSE_MAX = 0.01, 0.16  # seconds that a producer pauses when the queue is full

T = TypeVar("T")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut a stream into lists of at most ``size``."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def departure(flight: flights.Flight) -> mqredis.Outgoing:
    """The event sent for one flight; its body is the flight's key."""
    properties: dict[str, PropertyValue] = {"route": flight.route, "delay": flight.delay}
    return mqredis.Outgoing(body=flight.key.encode(), content_type="text/plain", properties=properties)


def notice(flight: flights.Flight) -> mqredis.Outgoing:
    """The line on the board for one late flight; the later, the higher its priority."""
    return mqredis.Outgoing(
        body=flight.key.encode(),
        content_type="text/plain",
        priority=flight.priority,
        properties={"delay": flight.delay},
    )


def produce(pipe: Connection, part: int, parts: int, limit: int) -> None:
    """Send one part of the flights, in transactions of 256; stand back while the queue is full.

    Reports ("full", key, lookup id) at the first refusal, naming the last flight sent so far, and after each
    batch ("sent", messages, refusals before it got in).
    """
    leave_interrupts_to_parent()
    last = ("", 0)
    told = False
    with mqredis.connect() as qm, qm.open(DEPARTURES) as departures, qm.open(BOARD) as board:
        for batch in batches(flights.read(part, parts, limit), BATCH):
            messages = [departure(flight) for flight in batch]
            pause, refused = PAUSE, 0
            while True:
                try:
                    with qm.transaction() as tx:
                        sent = departures.send_many(messages, transaction=tx)
                    break
                except mqredis.QueueQuotaExceeded:
                    refused += 1
                    if not told:
                        told = True
                        pipe.send(("full", *last))
                    time.sleep(pause)
                    pause = min(2 * pause, PAUSE_MAX)
            last = (batch[-1].key, sent[-1].lookup_id)
            late = [notice(flight) for flight in batch if flight.late]
            if late:
                board.send_many(late)
            pipe.send(("sent", len(batch), refused))
    pipe.send(("done",))


def book(pipe: Connection, stop_after: int | None) -> None:
    """Receive departures and send their bookings, each batch in one transaction.

    With ``stop_after`` the process stops for ever in the middle of that batch: everything done, nothing
    committed. That is where the demo kills it. A transaction that lapses, on a machine that is too busy, left no
    trace: its departures are received again.
    """
    leave_interrupts_to_parent()
    done = 0
    with mqredis.connect() as qm, qm.open(DEPARTURES) as departures, qm.open(BOOKINGS) as bookings:
        while True:
            try:
                with qm.transaction(lease=LEASE) as tx:
                    received = departures.receive_many(BATCH, timeout=IDLE, transaction=tx)
                    bookings.send_many(
                        [mqredis.Outgoing(body=m.body, properties=m.properties) for m in received],
                        transaction=tx,
                    )
                    done += 1
                    if done == stop_after:
                        pipe.send(("holding", len(received)))
                        signal.pause()
            except mqredis.IoTimeout:
                if pipe.poll() and not qm.queue_info(DEPARTURES).messages:
                    break
                continue
            except mqredis.TransactionSequence:
                pipe.send(("lapsed",))
                continue
            again = sum(m.abort_count > 0 for m in received)
            pipe.send(("booked", len(received), again))
    pipe.send(("done",))


def announce(pipe: Connection) -> None:
    """Lock late flights, most urgent first, and settle each batch in the call that locks the next.

    Reports how many there were of each priority, how often a batch was out of order, and their keys.
    """
    leave_interrupts_to_parent()
    keys: list[str] = []
    priorities: Counter[int] = Counter()
    disorder = 0
    held: list[mqredis.LockedMessage] = []
    with mqredis.connect() as qm, qm.open(BOARD) as board:
        while True:
            locked: list[mqredis.LockedMessage] = []
            with suppress(mqredis.IoTimeout):  # a call that finds no message settles the locks nevertheless
                locked = board.lock_many(BATCH, timeout=IDLE if not held else 0, lease=LEASE, settle=held)
            # Messages with a lapsed lease are not settled; they are delivered again.
            done = [entry.message for entry in held if entry.settled]
            priorities.update(message.priority for message in done)
            keys.extend(message.text for message in done)
            pipe.send(("announced", len(done)))
            held = locked
            order = [entry.message.priority for entry in locked]
            disorder += order != sorted(order, reverse=True)
            if not locked and pipe.poll() and not qm.queue_info(BOARD).messages:
                break
    pipe.send(("board", priorities, disorder, keys))
    pipe.send(("done",))


def leave_interrupts_to_parent() -> None:
    """Ctrl-C reaches every process of the terminal; only the one in front shall act on it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
