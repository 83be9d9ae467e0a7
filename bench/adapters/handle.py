"""What a client of ours must do for each call at least, on top of the functions that keep the promises (bench/kept.py).

Threads may share it; no call waits without an end; what is refused is raised; whoever sends or locks gets an object.
Nothing else: it tries nothing twice, wakes nobody, renews no session and no lease. No product.
"""

from __future__ import annotations

import socket
import struct
from threading import Lock
from typing import Any, ClassVar

from bench.adapters.ladder import Promises, Speaker
from bench.adapters.raw import RawFloor
from bench.payload import BODY_BYTES, Properties, check, correlation_id, pack, properties

SETTINGS = (
    "not a product: the same functions; threads may share its client, which has a time limit, raises what is refused, "
    "and gives an object with body, lookup id, delivery count and settlement"
)
#: Seconds that a call may take. The system measures them; Python would ask it before each read and write.
LIMIT = 30


class Refused(Exception):
    """The server said no."""


class Sent:
    """What a send answers."""

    __slots__ = ("lookup_id",)

    def __init__(self, lookup_id: bytes) -> None:
        self.lookup_id = lookup_id


class Handle:
    """A message that is locked."""

    __slots__ = ("body", "deliveries", "fence", "lookup_id", "queue")

    def __init__(self, queue: Queue, reply: Any) -> None:
        self.queue, self.fence, self.lookup_id = queue, reply[3], reply[7]
        state, record = reply[8], reply[9]
        self.body = record[record.index(0) + 1 :]
        self.deliveries = int(state[: state.index(32)])

    def settle(self) -> None:
        """It is done."""
        self.queue.settle(self)


class Queue:
    """One connection and one slot, in turns."""

    def __init__(self, wire: RawFloor, speaker: Speaker) -> None:
        limit = struct.pack("ll", LIMIT, 0)
        for way in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            wire.socket.setsockopt(socket.SOL_SOCKET, way, limit)
        self._write, self._read, self._close = wire.socket.sendall, wire.socket.recv, wire.socket.close
        self._feed, self._hear = wire.reader.feed, wire.reader.gets
        self._last = speaker.slot.last
        self._sending, self._settling = speaker.sending(), speaker.settling()
        self._locking, self._going_on = speaker.receiving(settles=False), speaker.receiving()
        self._lock = Lock()

    def _ask(self, pieces: tuple[bytes, bytes], rest: bytes) -> Any:
        """What is answered to a request, of which all but the number of its token is there, if that is no refusal."""
        before, behind = pieces
        with self._lock:
            self._last = last = self._last + 1
            number = b"%d" % last
            try:
                self._write(b"%b$%d\r\n%b\r\n%b%b" % (before, len(number), number, behind, rest))
                reply: Any = False
                while reply is False:
                    data = self._read(65_536)
                    if not data:
                        raise ConnectionError("the server has hung up")
                    self._feed(data)
                    reply = self._hear()
            except BaseException:
                self._close()  # what is answered later is the answer of no other call
                raise
        if type(reply) is not list or reply[0]:
            raise Refused(reply)
        return reply

    def send(self, body: bytes, correlation_id: str, properties: Properties) -> Sent:
        """Send one."""
        message = pack(body, correlation_id, properties)
        return Sent(self._ask(self._sending, b"$%d\r\n%b\r\n" % (len(message), message))[3])

    def lock(self, settle: Handle | None = None) -> Handle:
        """Lock the next, and settle another."""
        if settle is None:
            return Handle(self, self._ask(self._locking, b""))
        return Handle(self, self._ask(self._going_on, self._settled(settle)))

    def settle(self, held: Handle) -> None:
        """Settle one."""
        self._ask(self._settling, self._settled(held))

    @staticmethod
    def _settled(held: Handle) -> bytes:
        return b"$%d\r\n%b\r\n$16\r\n%b\r\n" % (len(held.fence), held.fence, held.lookup_id)


class PromisesHandle(Promises):
    """One at a time."""

    works: ClassVar[tuple[str, ...]] = ("send", "receive")
    settings = SETTINGS

    def open(self) -> None:
        super().open()
        self.client = Queue(self.wire, self.speaker)

    def send(self, first: int, count: int) -> None:
        send = self.client.send
        for number in range(first, first + count):
            send(BODY_BYTES, correlation_id=correlation_id(number), properties=properties(number))

    def receive(self, count: int) -> None:
        lock, held = self.client.lock, None
        for _ in range(count):
            held = lock(settle=held)
            check(held.body)
        if held:
            held.settle()
