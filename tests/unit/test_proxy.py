"""The proxy injects exactly the requested faults, which the reliability tests depend on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
import redis.asyncio

from tests.support import resp
from tests.support.faults import (
    BlackHole,
    CutReply,
    CutRequest,
    DropPush,
    Duplicate,
    Hold,
    Refuse,
    Request,
    SlowReply,
)
from tests.support.proxy import Proxy
from tests.support.server import RedisServer

INCR = b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"
PING = b"*1\r\n$4\r\nPING\r\n"


@pytest.fixture(params=["tcp", "unix"])
def proxy(request: pytest.FixtureRequest, redis_server: RedisServer, tmp_path: Path) -> Iterator[Proxy]:
    listen = redis_server.directory / "proxy.sock" if request.param == "unix" else None
    with Proxy(redis_server.socket_path, listen=listen, seed=1) as running:
        yield running
    if listen is not None:
        listen.unlink(missing_ok=True)


@pytest.fixture
def direct(redis_server: RedisServer) -> Iterator[redis.Redis]:
    """Read the server directly, without the proxy."""
    with redis_server.client(decode_responses=True) as client:
        yield client


@contextlib.contextmanager
def dial(proxy: Proxy) -> Iterator[socket.socket]:
    """A bare connection through the proxy."""
    family = socket.AF_UNIX if proxy.listen else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(30)
        connection.connect(str(proxy.listen) if proxy.listen else ("127.0.0.1", proxy.port))
        yield connection


def read(connection: socket.socket, size: int) -> bytes:
    """Read ``size`` bytes, fewer if the connection ends before."""
    data = b""
    while len(data) < size:
        try:
            part = connection.recv(size - len(data))
        except ConnectionError:
            break
        if not part:
            break
        data += part
    return data


def rest(connection: socket.socket) -> bytes:
    """Read until the end of the connection."""
    return read(connection, 1 << 20)


def test_passes_everything_without_a_rule(proxy, direct):
    client = redis.Redis.from_url(proxy.url(), decode_responses=True)
    big = "x" * 300_000
    assert client.set("big", big)
    assert client.get("big") == big == direct.get("big")
    with client.pipeline(transaction=True) as pipe:
        for _ in "12":
            pipe.incrby("n", 1)
        pipe.lrange("none", 0, -1)
        assert pipe.execute() == [1, 2, []]
    assert client.eval("return {1, {'a', false}, redis.status_reply('fine')}", 0) == [1, ["a", None], "fine"]
    assert proxy.commands()["INCRBY"] == 2
    client.close()


async def test_serves_asyncio_clients(proxy):
    client = redis.asyncio.Redis.from_url(proxy.url())
    await asyncio.gather(*(client.incr("n") for _ in range(20)))
    assert await client.get("n") == b"20"
    await client.aclose()


@pytest.mark.parametrize("after", range(len(INCR) + 1))
def test_cut_in_the_request_runs_only_what_was_complete(proxy, direct, after):
    rule = proxy.add(CutRequest(after), command="INCR")
    with dial(proxy) as connection:
        connection.sendall(INCR)
        assert rest(connection) == b""
    assert rule.hits == 1
    if after < len(INCR):
        assert direct.get("n") is None
    else:
        assert rule.wait()


@pytest.mark.parametrize("after", range(5))
def test_cut_in_the_reply_comes_after_the_effect(proxy, direct, after):
    rule = proxy.add(CutReply(after), command="INCR")
    with dial(proxy) as connection:
        connection.sendall(INCR)
        assert rest(connection) == b":1\r\n"[:after]
    assert rule.wait()
    assert direct.get("n") == "1"


def test_rules_apply_to_the_chosen_requests_only(proxy):
    rule = proxy.add(Refuse("BUSY no"), command="incr", skip=1, times=2, where=lambda r: r.args[1] == b"n")
    with dial(proxy) as connection:
        connection.sendall(INCR + INCR.replace(b"n\r\n", b"m\r\n") + INCR * 3)
        assert read(connection, 4 * 3 + 10 * 2) == b":1\r\n:1\r\n-BUSY no\r\n-BUSY no\r\n:2\r\n"
    assert [(r.connection, r.index) for r in rule.seen] == [(1, 3), (1, 4)]


def test_injected_answers_keep_the_order_of_the_requests(proxy):
    proxy.add(Refuse("OOM full"), command="PING", times=None)
    with dial(proxy) as connection:
        connection.sendall(b"BLPOP none 0.05\r\n" + PING + INCR + PING)
        expected = b"*-1\r\n-OOM full\r\n:1\r\n-OOM full\r\n"
        assert read(connection, len(expected)) == expected


def test_held_request_runs_when_released_after_its_client_disconnected(proxy, direct):
    rule = proxy.add(Hold(cut=True), command="INCR")
    with dial(proxy) as connection:
        connection.sendall(INCR)
        assert rule.wait()
        assert rest(connection) == b""
    with dial(proxy) as second:  # the client comes back and goes on
        second.sendall(INCR)
        assert read(second, 4) == b":1\r\n"
        with direct.monitor() as monitor:
            rule.release()
            assert next(monitor.listen())["command"] == "INCR n"
    assert direct.get("n") == "2"


def test_held_reply_is_sent_when_released(proxy, direct):
    rule = proxy.add(Hold(reply=True), command="INCR")
    with dial(proxy) as connection:
        connection.sendall(INCR + PING)
        assert rule.wait()
        assert direct.get("n") == "1"
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(1)
        connection.settimeout(30)
        rule.release()
        assert read(connection, 11) == b":1\r\n+PONG\r\n"


def test_clear_releases_held_requests(proxy):
    rule = proxy.add(Hold(), command="INCR")
    with dial(proxy) as connection:
        connection.sendall(INCR)
        assert rule.wait()
        proxy.clear()
        assert read(connection, 4) == b":1\r\n"


def test_drip_delivers_in_small_pieces(proxy):
    rule = proxy.add(SlowReply(size=2), command="PING")
    with dial(proxy) as connection:
        connection.sendall(PING)
        pieces = [connection.recv(100)]
        while sum(map(len, pieces)) < 7:
            pieces.append(connection.recv(100))
    assert rule.wait()
    assert b"".join(pieces) == b"+PONG\r\n"
    assert len(pieces) > 1


@pytest.mark.parametrize("forward", [False, True])
def test_black_hole_sends_nothing_and_stays_open(proxy, direct, forward):
    rule = proxy.add(BlackHole(forward), command="INCR")
    with dial(proxy) as connection:
        connection.sendall(INCR + PING)
        assert rule.wait()
        with dial(proxy) as other:  # a round trip on another connection: time enough for an answer
            other.sendall(PING)
            assert read(other, 7) == b"+PONG\r\n"
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            connection.recv(1)
    assert direct.get("n") == ("1" if forward else None)


@pytest.mark.parametrize("first, answer", [(False, b":1\r\n"), (True, b":2\r\n")])
def test_duplicate_runs_twice_and_answers_once(proxy, direct, first, answer):
    proxy.add(Duplicate(first), command="INCR")
    with dial(proxy) as connection:
        connection.sendall(b"SELECT 3\r\n" + INCR + PING)
        assert read(connection, 5 + 4 + 7) == b"+OK\r\n" + answer + b"+PONG\r\n"
    direct.select(3)
    assert direct.get("n") == "2"


def test_dropped_messages_leave_subscriptions_and_answers_alone(proxy, direct):
    client = redis.Redis.from_url(proxy.url(), decode_responses=True, protocol=2)
    with client.pubsub() as pubsub:
        pubsub.subscribe("a", "b")
        assert [pubsub.get_message(timeout=30)["type"] for _ in "ab"] == ["subscribe"] * 2
        rule = proxy.add(DropPush(), where=lambda r: r.args[1] == b"a", times=1)
        for text in ("lost", "kept"):
            direct.publish("a", text)
        direct.publish("b", "b")
        assert [pubsub.get_message(timeout=30)["data"] for _ in "ab"] == ["kept", "b"]
    assert rule.hits == 1
    client.close()


def test_dropped_messages_of_resp3(proxy, direct):
    with dial(proxy) as connection:
        connection.sendall(b"HELLO 3\r\nSUBSCRIBE a\r\nPING\r\n")
        data = b""
        while not data.endswith(b"+PONG\r\n"):
            data += connection.recv(4096)
        assert b">3\r\n$9\r\nsubscribe" in data
        rule = proxy.add(DropPush(), times=1)
        direct.publish("a", "lost")
        direct.publish("a", "kept")
        kept = b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$4\r\nkept\r\n"
        assert read(connection, len(kept)) == kept
    assert rule.hits == 1


def test_cut_in_the_confirmation_of_a_subscription(proxy):
    proxy.add(CutReply(5), command="SUBSCRIBE")
    with dial(proxy) as connection:
        connection.sendall(b"SUBSCRIBE a\r\n")
        assert rest(connection) == b"*3\r\n$"


def test_the_same_seed_hits_the_same_requests(redis_server):
    def hits(seed: int) -> list[int]:
        with Proxy(redis_server.socket_path, seed=seed) as proxy, dial(proxy) as connection:
            rule = proxy.add(Refuse("BUSY no"), times=None, chance=0.3)
            connection.sendall(PING * 200)
            assert rest_of(connection, 200)
            return [request.index for request in rule.seen]

    assert hits(5) == hits(5) != hits(6)
    assert 30 < len(hits(5)) < 90


def rest_of(connection: socket.socket, answers: int) -> bytes:
    """Read the given number of lines."""
    data = b""
    while data.count(b"\r\n") < answers:
        data += connection.recv(65_536)
    return data


def test_cut_all_wakes_a_client_that_waits_for_an_answer(proxy):
    with dial(proxy) as connection:
        connection.sendall(b"BLPOP none 0\r\n")
        gone = threading.Event()

        def read_to_the_end() -> None:
            rest(connection)
            gone.set()

        reader = threading.Thread(target=read_to_the_end)
        reader.start()
        while not proxy.log:
            gone.wait(0.001)
        assert proxy.cut_all() == 1
        assert gone.wait(30)
        reader.join()


def test_down_refuses_new_connections(proxy):
    proxy.down = True
    with dial(proxy) as connection:
        assert rest(connection) == b""
    proxy.down = False
    with dial(proxy) as connection:
        connection.sendall(PING)
        assert read(connection, 7) == b"+PONG\r\n"


def test_unreachable_server(tmp_path):
    with Proxy(tmp_path / "none.sock") as proxy, dial(proxy) as connection:
        assert rest(connection) == b""


async def frames_of(data: bytes) -> list[bytes]:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    found = []
    while not reader.at_eof():
        found.append(await resp.read_frame(reader))
    return found


async def test_frames_of_every_type():
    frames = [
        b"+OK\r\n", b"-ERR no\r\n", b":5\r\n", b"$-1\r\n", b"$0\r\n\r\n", b"$4\r\na\r\nb\r\n", b"*-1\r\n",
        b"*0\r\n",
        b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", b"_\r\n", b"#t\r\n", b",1.5\r\n", b"(123\r\n", b"=5\r\ntxt:x\r\n",
        b"!2\r\nno\r\n", b"~2\r\n:1\r\n:2\r\n", b"%1\r\n+a\r\n*1\r\n:1\r\n", b">2\r\n+a\r\n+b\r\n",
        b"|1\r\n+ttl\r\n:5\r\n$1\r\nx\r\n",
    ]  # fmt: skip
    assert await frames_of(b"".join(frames)) == frames


def test_strings_of_requests():
    assert resp.strings(INCR) == (b"INCR", b"n")
    assert resp.strings(b"BLPOP none 0\r\n") == (b"BLPOP", b"none", b"0")
    assert resp.strings(b"*2\r\n$0\r\n\r\n$-1\r\n") == (b"", b"")
    assert resp.strings(b"*2\r\n$1\r\na\r\n:1\r\n") == (b"a",)
    assert Request(1, 1, 1, (), b"").command == ""
