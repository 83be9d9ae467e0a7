"""A password is never in a log, a representation, an error, a report or a list of processes."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import mqredis
import mqredis.asyncio
from mqredis import MqError, Settings
from tests.support.server import RedisServer, free_port

# Has characters that are escaped differently in a URL, in a repr and in JSON.
SECRET = "canary/\\'\"@:%é"
FORMS = {SECRET, quote(SECRET, safe=""), repr(SECRET)[1:-1], "canary"}
IN_URL = quote(SECRET, safe="")
SHORT_RETRIES = Settings(retry_seconds=0.2, connect_timeout_seconds=5, reply_timeout_seconds=5)
# For tests that accept any failure.
SHORT_TIMEOUTS = SHORT_RETRIES.model_copy(
    update={"connect_timeout_seconds": 0.5, "reply_timeout_seconds": 0.5}
)


def shows(text: str) -> bool:
    return any(form in text for form in FORMS)


@pytest.fixture
def server(start_server: Callable[..., RedisServer]) -> RedisServer:
    """A server whose user ``app`` has the password."""
    server = start_server(tcp=True)
    with server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "app", "on", f">{SECRET}", "~*", "&*", "+@all")
    return server


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Fail if any logger has logged the password."""
    caplog.set_level(logging.DEBUG)
    yield caplog
    assert not shows(caplog.text)


def url(server: RedisServer, password: str = IN_URL) -> str:
    return f"redis://app:{password}@127.0.0.1:{server.port}/0"


def representations(thing: Any, seen: set[int] | None = None, depth: int = 4) -> Iterator[str]:
    """``repr`` and ``str`` of an object and of its attributes, as a debugger or logger shows them."""
    seen = set() if seen is None else seen
    if id(thing) in seen or depth < 0:
        return
    seen.add(id(thing))
    if type(thing).__module__.split(".")[0] == "mqredis":
        yield repr(thing)
        yield str(thing)
        for name in [*getattr(thing, "__dict__", {}), *getattr(type(thing), "__slots__", ())]:
            yield from representations(getattr(thing, name, None), seen, depth - 1)


def test_no_representation_shows_the_password(server: RedisServer) -> None:
    settings = SHORT_RETRIES.model_copy(update={"url": url(server)})
    assert not shows(repr(settings) + str(settings))
    with mqredis.connect(settings=settings) as qm:
        qm.create_queue("q")
        with qm.open("q") as q, qm.transaction() as unit:
            q.send(b"x")
            things = (qm, q, unit, q.lock(0), q.cursor(), qm.info(), qm.doctor())
            texts = [text for thing in things for text in representations(thing)]
        assert len(texts) > 20
        assert not [text for text in texts if shows(text)]


def broken(server: RedisServer) -> list[str]:
    """URLs that fail, each for another reason."""
    dead = free_port()
    wrong = IN_URL + "wrong"
    return [
        url(server, wrong),
        f"redis://app:{IN_URL}@127.0.0.1:{dead}/0",
        f"redis://app:{IN_URL}@127.0.0.1:{server.port}/999",
        f"redis://app:{IN_URL}@127.0.0.1:{server.port}/0?no_such_option=1",
        f"redis://127.0.0.1:{server.port}/0?username=app&password={wrong}",
        f"redis://app:{IN_URL}@127.0.0.1:{server.port}/not-a-number",
        f"rediss://app:{IN_URL}@127.0.0.1:{server.port}/0",
        f"redis+sentinel://app:{IN_URL}@127.0.0.1:{dead}/shop/0",
        f"redis+cluster://app:{IN_URL}@127.0.0.1:{dead}",
        f"unknown://app:{IN_URL}@127.0.0.1:{server.port}/0",
        f"redis://app:{IN_URL}@127.0.0.1:port/0",
    ]


def error_text(error: BaseException) -> str:
    """Everything that an error shows: traceback with causes, repr, and details."""
    details = getattr(error, "details", "")
    return "".join(traceback.format_exception(error)) + repr(error) + repr(details)


def test_no_connect_error_shows_the_password(server: RedisServer) -> None:
    for address in broken(server):
        with pytest.raises(MqError) as failed:
            mqredis.connect(address, settings=SHORT_TIMEOUTS)
        assert not shows(error_text(failed.value)), address.split("@")[-1]


async def test_no_asyncio_connect_error_shows_the_password(server: RedisServer) -> None:
    for address in broken(server):
        with pytest.raises(MqError) as failed:
            await mqredis.asyncio.connect(address, settings=SHORT_TIMEOUTS)
        assert not shows(error_text(failed.value)), address.split("@")[-1]


def test_error_of_a_refused_reconnection_does_not_show_the_password(server: RedisServer) -> None:
    with mqredis.connect(url(server), settings=SHORT_RETRIES) as qm:
        qm.create_queue("q")
        with server.client() as raw:
            raw.execute_command("ACL", "SETUSER", "app", "resetpass", ">another")
            raw.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        with pytest.raises(MqError) as failed:
            qm.info()
        assert not shows(error_text(failed.value))


# A worker that replies with the arguments of all processes, its own and its parent's included.
APP = """
import contextlib, pathlib, subprocess
from mqredis.worker import Unit, Worker

worker = Worker()

def arguments():
    if not pathlib.Path("/proc/self/cmdline").exists():
        return subprocess.run(["ps", "-axo", "args"], capture_output=True, check=True).stdout
    found = []
    for each in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(each.read_bytes())
    return b"\\n".join(found)

@worker.consumer("in", create={})
def handle(body: bytes, tx: Unit):
    tx.send("out", arguments())
"""


def test_process_list_does_not_show_the_password(server: RedisServer, tmp_path: Path) -> None:
    """The command and the processes that it starts take the URL from the environment."""
    (tmp_path / "app.py").write_text(APP)
    environment = os.environ | {"MQREDIS_URL": url(server), "PYTHONPATH": str(Path(__file__).parents[2])}
    with mqredis.connect(url(server)) as qm:
        qm.create_queue("in")
        qm.create_queue("out")
        with qm.open("in") as source, qm.open("out") as target:
            source.send(b"x")
            done = subprocess.run(
                [sys.executable, "-m", "mqredis", "worker", "app:worker", "--processes", "2", "--burst"],
                cwd=tmp_path, env=environment, capture_output=True, timeout=100, check=False,
            )  # fmt: skip
            said = (done.stdout + done.stderr).decode()
            assert done.returncode == 0, said
            seen = target.receive(0).body.decode(errors="replace")
    assert seen.count("app:worker") >= 2
    assert not shows(seen)
    assert not shows(said)


async def test_asyncio_debug_log_does_not_show_the_password(server: RedisServer) -> None:
    asyncio.get_running_loop().set_debug(True)
    async with mqredis.asyncio.connect(url(server), settings=SHORT_RETRIES) as qm:
        await qm.create_queue("q")
        async with qm.open("q") as q:
            await q.send(b"x")
            assert (await q.receive(0)).body == b"x"
