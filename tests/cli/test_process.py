"""The command line in separate processes: pipes, signals, exit codes of the doctor, the private server."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import mqredis
from tests.support.counts import set_count
from tests.support.server import RedisServer

Start = Callable[..., subprocess.Popen[str]]


# Seconds after which a process counts as hung.
PROCESS_TIMEOUT = 150
pytestmark = pytest.mark.timeout(600)  # some tests start six processes


def end(process: subprocess.Popen[str], stdin: str = "") -> tuple[int, str, str]:
    out, err = process.communicate(stdin, timeout=PROCESS_TIMEOUT)
    return process.returncode, out, err


def test_messages_are_piped_through_processes(start: Start) -> None:
    assert end(start("queue", "create", "orders"))[0] == 0
    code, out, _ = end(start("send", "orders", "--lines"), "a\nb\n")
    assert code == 0
    assert len(out.split()) == 2
    assert end(start("receive", "orders", "--count", "0")) == (0, "a\nb\n", "")


def test_waiting_receive_prints_each_message_immediately(
    start: Start, redis_server: RedisServer, manager: str
) -> None:
    with mqredis.connect(redis_server.url, manager=manager) as qm:
        qm.create_queue("orders")
        reader = start("receive", "orders", "--wait", "--count", "2")
        assert reader.stdout is not None
        with qm.open("orders") as orders:
            orders.send(b"first")
            assert reader.stdout.readline() == "first\n"
            orders.send(b"second")
            assert end(reader)[:2] == (0, "second\n")


def test_interrupted_receive_leaves_no_lock(start: Start, redis_server: RedisServer, manager: str) -> None:
    with mqredis.connect(redis_server.url, manager=manager) as qm:
        qm.create_queue("orders")
        orders = qm.open("orders")
        reader = start("receive", "orders", "--wait", "--count", "2")
        assert reader.stdout is not None
        orders.send(b"one")
        assert reader.stdout.readline() == "one\n"
        reader.send_signal(signal.SIGINT)
        code, _, err = end(reader)
        assert code == 130, err
        assert qm.queue_info("orders").locked == 0  # committed, or released if the signal came first


def test_doctor_exit_codes(start: Start, redis_server: RedisServer, manager: str) -> None:
    assert end(start("queue", "create", "orders"))[0] == 0
    assert end(start("doctor"))[0] == 0
    code, out, _ = end(start("doctor", "--strict"))  # the test server has no persistence
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


def test_unreachable_server_error_hides_the_password(start: Start) -> None:
    code, out, err = end(start("stats", MQREDIS_URL="redis://u:topsecret@localhost:1"))
    assert (code, out) == (4, "")
    assert "topsecret" not in err
    assert "Traceback" not in err


def test_broker_command_runs_the_private_server_in_the_foreground(start: Start, tmp_path: Path) -> None:
    broker = start("broker", str(tmp_path), "--json")
    assert broker.stdout is not None
    server = json.loads(broker.stdout.readline())
    code, out, _ = end(start("queue", "create", "orders", "--json", MQREDIS_URL=server["url"]))
    assert code == 0
    assert json.loads(out)["name"] == "orders"
    broker.send_signal(signal.SIGTERM)
    assert end(broker)[0] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_exporter_ends_in_order_at_a_signal(
    start: Start, redis_server: RedisServer, manager: str, number: int
) -> None:
    mqredis.connect(redis_server.url, manager=manager).close()
    exporter = start("exporter", "--port", "0", "--json")
    assert exporter.stdout is not None
    assert json.loads(exporter.stdout.readline())["url"].startswith("http://127.0.0.1:")
    exporter.send_signal(number)
    code, _, err = end(exporter)
    assert (code, err) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_drain_that_is_ended_by_a_signal_gives_its_messages_back(
    start: Start, redis_server: RedisServer, manager: str, number: int
) -> None:
    with mqredis.connect(redis_server.url, manager=manager) as qm:
        qm.create_queue("orders", retry=mqredis.RetryPolicy(immediate=0, final="drop"))
        qm.open("orders").send_many([b"x" * 4000] * 256)
        drain = start("export", "orders", "--drain")  # the drain waits: the test reads one line only
        assert drain.stdout is not None
        drain.stdout.readline()
        drain.send_signal(number)
        code, _, err = end(drain)
        assert (code, "removed 0 messages; the lines from 1 on" in err) == (130, True)
        info = qm.queue_info("orders")
        assert (info.ready, info.locked) == (256, 0)


def test_closed_output_pipe_is_not_an_error(start: Start, redis_server: RedisServer, manager: str) -> None:
    with mqredis.connect(redis_server.url, manager=manager) as qm:
        qm.create_queue("orders")
        qm.open("orders").send_many([b"x" * 4000] * 256)
        with start("receive", "orders", "--count", "0") as reader:
            assert reader.stdout is not None
            reader.stdout.readline()
            reader.stdout.close()
            assert reader.wait(PROCESS_TIMEOUT) == 0
        assert 0 < qm.queue_info("orders").messages < 256


def test_closed_output_pipe_leaves_nothing_on_standard_error(
    start: Start, redis_server: RedisServer, manager: str
) -> None:
    with mqredis.connect(redis_server.url, manager=manager) as qm:
        qm.create_queue("orders")
        qm.open("orders").send_many([b"x" * 4000] * 256)
        with start("browse", "orders", "--json") as reader:
            assert reader.stdout is not None
            assert reader.stderr is not None
            reader.stdout.readline()
            reader.stdout.close()
            assert reader.wait(PROCESS_TIMEOUT) == 0
            assert reader.stderr.read() == ""


@pytest.mark.parametrize(
    "where,code,said",
    [("closed pipe", 0, ""), ("full disk", 1, "mqredis: [Errno 28] No space left on device\n")],
)
def test_output_that_is_written_at_the_end_gives_an_exit_code_of_ours(
    where: str, code: int, said: str, redis_server: RedisServer, manager: str
) -> None:
    if where == "closed pipe":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open("/dev/full", os.O_WRONLY)
    with mqredis.connect(redis_server.url, manager=manager) as qm:
        qm.create_queue("orders")
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "mqredis", "queue", "list"],
            env={
                **os.environ,
                "MQREDIS_URL": redis_server.url,
                "MQREDIS_MANAGER": manager,
                "PYTHONUNBUFFERED": "",
            },
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PROCESS_TIMEOUT,
            check=False,
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (code, said)


def run_in_shell(redirection: str, words: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command with a stream that the shell has closed."""
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "mqredis", *words.split()],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=PROCESS_TIMEOUT,
        check=False,
    )


@pytest.fixture
def env(redis_server: RedisServer, manager: str) -> Mapping[str, str]:
    """Variables of a command, for a manager with the queue ``orders``."""
    with mqredis.connect(redis_server.url, manager=manager) as qm:
        qm.create_queue("orders")
    return {"MQREDIS_URL": redis_server.url, "MQREDIS_MANAGER": manager}


@pytest.mark.parametrize("words", ["queue list", "show overview", "doctor"])
def test_closed_standard_output_drops_what_is_printed(words: str, env: Mapping[str, str]) -> None:
    ended = run_in_shell(">&-", words, env)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    "words", ["receive orders", "receive orders --raw", "export orders", "export orders --drain"]
)
def test_messages_stay_if_standard_output_is_closed(words: str, env: Mapping[str, str]) -> None:
    with mqredis.connect(env["MQREDIS_URL"], manager=env["MQREDIS_MANAGER"]) as qm:
        with qm.open("orders") as orders:
            orders.send("tea")
        ended = run_in_shell(">&-", words, env)
        assert ended.returncode == 2
        assert "standard output is closed" in ended.stderr
        assert qm.queue_info("orders").ready == 1


@pytest.mark.parametrize("words", ["send orders", "send orders --lines", "import orders", "request orders"])
def test_closed_standard_input_is_refused(words: str, env: Mapping[str, str]) -> None:
    ended = run_in_shell("<&-", words, env)
    assert (ended.returncode, ended.stderr.partition(":")[0]) == (2, "mqredis"), ended.stderr
    assert "standard input is closed" in ended.stderr


def test_error_is_not_printed_among_results_when_standard_error_is_closed(
    redis_server: RedisServer, manager: str
) -> None:
    ended = run_in_shell(
        "2>&-", "receive orders", {"MQREDIS_URL": redis_server.url, "MQREDIS_MANAGER": manager}
    )
    assert (ended.returncode, ended.stdout) == (1, "")


def test_terminal_output_is_a_table_with_escaped_markup(redis_server: RedisServer, manager: str) -> None:
    with mqredis.connect(redis_server.url, manager=manager) as qm:
        qm.create_queue("orders", label="[bold]x[/bold]")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mqredis", "queue", "list"],
        env={**os.environ, "MQREDIS_URL": redis_server.url, "MQREDIS_MANAGER": manager, "COLUMNS": "200"},
        stdout=theirs,
    )
    os.close(theirs)
    assert process.wait(PROCESS_TIMEOUT) == 0
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
