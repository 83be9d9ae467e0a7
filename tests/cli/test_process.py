"""The command line as processes of their own: pipes, signals, the doctor's exit codes, the private server."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mqredis
from tests.support.counts import set_count
from tests.support.server import RedisServer

Start = Callable[..., subprocess.Popen[str]]


# For a process that hangs, in seconds: far more than one takes on a machine that has other things to do.
PATIENCE = 150
pytestmark = pytest.mark.timeout(600)  # some tests start half a dozen of them


def end(process: subprocess.Popen[str], stdin: str = "") -> tuple[int, str, str]:
    out, err = process.communicate(stdin, timeout=PATIENCE)
    return process.returncode, out, err


def test_a_pipe_from_shell_to_shell(start: Start) -> None:
    assert end(start("queue", "create", "orders"))[0] == 0
    code, out, _ = end(start("send", "orders", "--lines"), "a\nb\n")
    assert code == 0
    assert len(out.split()) == 2
    assert end(start("receive", "orders", "--count", "0")) == (0, "a\nb\n", "")


def test_a_reader_that_waits_prints_at_once(start: Start, redis_server: RedisServer, manager: str) -> None:
    with mqredis.connect(redis_server.url, manager=manager) as qm:
        qm.create_queue("orders")
        reader = start("receive", "orders", "--wait", "--count", "2")
        assert reader.stdout is not None
        with qm.open("orders") as orders:
            orders.send(b"first")
            assert reader.stdout.readline() == "first\n"
            orders.send(b"second")
            assert end(reader)[:2] == (0, "second\n")


def test_an_interrupted_reader_leaves_the_messages(
    start: Start, redis_server: RedisServer, manager: str
) -> None:
    with mqredis.connect(redis_server.url, manager=manager) as qm:
        qm.create_queue("orders")
        orders = qm.open("orders")
        reader = start("receive", "orders", "--wait", "--count", "2")
        assert reader.stdout is not None
        orders.send(b"one")
        assert reader.stdout.readline() == "one\n"
        reader.send_signal(signal.SIGINT)
        assert end(reader)[0] == 130
        assert qm.queue_info("orders").locked == 0  # committed, or given back if the signal was faster


def test_the_doctor_tells_by_its_exit_code(start: Start, redis_server: RedisServer, manager: str) -> None:
    assert end(start("queue", "create", "orders"))[0] == 0
    assert end(start("doctor"))[0] == 0
    code, out, _ = end(start("doctor", "--strict"))  # the server of the tests keeps nothing on disk
    assert code == 6
    assert "server.volatile" in out
    assert "durability=memory         yes: every call\n" in out
    assert "durability=replica        no: by WAIT; replicas attached: 0, needed: 1\n" in out
    with redis_server.client() as raw:
        set_count(raw, f"mq:{{{manager}}}:q:orders:q", "messages", 7)
    code, out, _ = end(start("doctor", "--json"))
    assert code == 7
    report = json.loads(out)
    assert report["findings"][0]["code"] == "counter.queue"
    assert {level["name"]: level["reachable"] for level in report["levels"]}["memory"]
    code, out, _ = end(start("doctor", "--repair"))
    assert code == 0
    assert "[repaired]" in out


def test_a_server_that_is_not_there(start: Start) -> None:
    code, out, err = end(start("stats", MQREDIS_URL="redis://u:topsecret@localhost:1"))
    assert (code, out) == (4, "")
    assert "topsecret" not in err
    assert "Traceback" not in err


def test_the_private_server_in_the_foreground(start: Start, tmp_path: Path) -> None:
    broker = start("broker", str(tmp_path), "--json")
    assert broker.stdout is not None
    server = json.loads(broker.stdout.readline())
    code, out, _ = end(start("queue", "create", "orders", "--json", MQREDIS_URL=server["url"]))
    assert code == 0
    assert json.loads(out)["name"] == "orders"
    broker.send_signal(signal.SIGTERM)
    assert end(broker)[0] == 0


def test_a_closed_pipe_is_no_error(start: Start, redis_server: RedisServer, manager: str) -> None:
    with mqredis.connect(redis_server.url, manager=manager) as qm:
        qm.create_queue("orders")
        qm.open("orders").send_many([b"x" * 4000] * 256)
        with start("receive", "orders", "--count", "0") as reader:
            assert reader.stdout is not None
            reader.stdout.readline()
            reader.stdout.close()
            assert reader.wait(PATIENCE) == 0
        assert 0 < qm.queue_info("orders").messages < 256


def test_a_terminal_gets_a_table_and_no_markup_of_strangers(redis_server: RedisServer, manager: str) -> None:
    with mqredis.connect(redis_server.url, manager=manager) as qm:
        qm.create_queue("orders", label="[bold]x[/bold]")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mqredis", "queue", "list"],
        env={**os.environ, "MQREDIS_URL": redis_server.url, "MQREDIS_MANAGER": manager, "COLUMNS": "200"},
        stdout=theirs,
    )
    os.close(theirs)
    assert process.wait(PATIENCE) == 0
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "orders" in shown
    assert "[bold]x[/bold]" in shown


def test_completion_for_bash(start: Start) -> None:
    _, script, _ = end(start("completion", "bash"))
    for words, expected in (
        (["mqredis", "que"], {"queue"}),
        (["mqredis", "queue", "cre"], {"create"}),
        (["mqredis", "--url", "x", "throttle", "o"], {"on", "off"}),
        (["mqredis", "queue", "create", "name", "--quota-b"], {"--quota-bytes"}),
    ):
        line = (
            f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _mqredis; echo ${{COMPREPLY[@]}}"
        )
        text = f"{script}\n{line}"
        found = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
        assert expected <= set(found.stdout.split()), (words, found)
