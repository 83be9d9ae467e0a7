"""The least that a client of ours must do (bench/adapters/handle.py), over a socket with somebody at its other end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import hiredis
import pytest

from bench.adapters.handle import Queue, Refused
from bench.payload import BODY_BYTES, correlation_id, pack, properties

RECORD = b"1763676000000" + pack(BODY_BYTES, correlation_id(1), properties(1))
LOCKED = (
    b"*10\r\n:0\r\n$3\r\ninc\r\n:5\r\n$1\r\n5\r\n$13\r\n1763676030000\r\n:1763676000000\r\n:0\r\n"
    b"$16\r\n0400000000000001\r\n$7\r\n1 0 0 0\r\n$%d\r\n%b\r\n" % (len(RECORD), RECORD)
)
SETTLED = b"*4\r\n:0\r\n$3\r\ninc\r\n:6\r\n:1\r\n"


class Server:
    """Notes what it is asked, and answers what is put into ``answers``."""

    def __init__(self) -> None:
        near, self._far = socket.socketpair()
        self.wire: Any = SimpleNamespace(socket=near, reader=hiredis.Reader())
        self._reader = hiredis.Reader()

    def answer(self, reply: bytes) -> None:
        """What it will answer next."""
        self._far.sendall(reply)

    def asked(self) -> Any:
        """The next request."""
        while (request := self._reader.gets()) is False:
            self._reader.feed(self._far.recv(65_536))
        return request

    def close(self) -> None:
        self.wire.socket.close()
        self._far.close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def queue(server: Server) -> Queue:
    speaker: Any = SimpleNamespace(
        slot=SimpleNamespace(last=7),
        sending=lambda: (b"*3\r\n$4\r\nSEND\r\n", b""),
        receiving=lambda settles=True: (b"*%d\r\n$4\r\nLOCK\r\n" % (4 if settles else 2), b""),
        settling=lambda: (b"*4\r\n$6\r\nSETTLE\r\n", b""),
    )
    return Queue(server.wire, speaker)


def test_a_message_is_an_object_and_the_next_lock_settles_it(server: Server, queue: Queue) -> None:
    server.answer(LOCKED)
    held = queue.lock()
    assert (held.body, held.lookup_id, held.deliveries) == (BODY_BYTES, b"0400000000000001", 1)
    server.answer(LOCKED)
    held = queue.lock(settle=held)
    server.answer(SETTLED)
    held.settle()
    settled = [b"5", b"0400000000000001"]
    assert [server.asked() for _ in range(3)] == [
        [b"LOCK", b"8"],
        [b"LOCK", b"9", *settled],
        [b"SETTLE", b"10", *settled],
    ]


def test_a_send_is_packed_and_answers_its_id(server: Server, queue: Queue) -> None:
    server.answer(b"*5\r\n:0\r\n$3\r\ninc\r\n:6\r\n$16\r\n0400000000000001\r\n$0\r\n\r\n")
    assert queue.send(BODY_BYTES, correlation_id(1), properties(1)).lookup_id == b"0400000000000001"
    assert server.asked() == [b"SEND", b"8", RECORD[13:]]


@pytest.mark.parametrize("refusal", [b"-ERR no\r\n", b"*3\r\n:7\r\n$3\r\ninc\r\n:6\r\n"])
def test_what_is_refused_is_raised(server: Server, queue: Queue, refusal: bytes) -> None:
    server.answer(refusal)
    with pytest.raises(Refused):
        queue.lock()


def test_a_connection_that_is_out_of_step_is_closed(server: Server, queue: Queue) -> None:
    server.answer(b"?")
    with pytest.raises(hiredis.ProtocolError):
        queue.lock()
    assert server.wire.socket.fileno() == -1
