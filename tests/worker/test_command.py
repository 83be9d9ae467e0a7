"""``mqredis worker`` and ``mqredis health`` as processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import mqredis
from mqredis.cli import main
from mqredis.cli.app import build
from mqredis.cli.exits import Exit
from mqredis.worker.command import _URL, _child_options
from mqredis.worker.processes import _USAGE
from tests.support.server import RedisServer

APP = """
import os
from mqredis.worker import Retry, Unit, Worker

worker = Worker(manager="m")

@worker.consumer("in", create={{}}, lease=4, retry=Retry(attempts=2))
def handle(body: bytes, tx: Unit):
    if body == b"die":
        os._exit(9)
    if body == b"fail":
        raise ValueError(body)
    tx.send("out", f"{marker} {{os.getpid()}} {{body.decode()}}")
"""
WAIT = 60.0


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP.format(marker="first"))
    return tmp_path


@pytest.fixture
def out(redis_server: RedisServer) -> Iterator[mqredis.Queue]:
    settings = mqredis.Settings(allow_volatile=True)
    with mqredis.connect(redis_server.url, manager="m", settings=settings) as qm:
        for name in ("in", "out"):
            qm.create_queue(name)
        with qm.open("out") as queue:
            yield queue


def send(out: mqredis.Queue, *bodies: bytes) -> None:
    with out._manager.open("in") as queue:
        queue.send_many(bodies)


@pytest.fixture
def run(app: Path, redis_server: RedisServer) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started = []

    def start(*arguments: str, stderr: Any = None) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "MQREDIS_URL": redis_server.url,
            "MQREDIS_ALLOW_VOLATILE": "1",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "mqredis", *arguments],
            cwd=app,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.terminate()  # SIGTERM also ends its child processes, which hold the pipe; SIGKILL would not
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=WAIT)
        process.kill()


def test_burst_handles_what_is_there_and_exits(run, out):
    send(out, b"1", b"2")
    assert run("worker", "app:worker", "--burst").wait(WAIT) == 0
    assert [message.text.split()[2] for message in out.receive_many(9, timeout=0)] == ["1", "2"]


def test_sigterm_ends_the_worker(run, out, app):
    process = run("worker", "app:worker", "--health-file", str(app / "alive"))
    send(out, b"1")
    out.receive(timeout=WAIT)
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT) == 0
    assert main(["health", "--consumer", str(app / "alive"), "--max-age", "600"]) == 0
    assert main(["health", "--consumer", str(app / "nobody")]) == 1
    os.utime(app / "alive", (0, 0))
    assert main(["health", "--consumer", str(app / "alive")]) == 1


def test_dead_processes_are_restarted(run, out):
    process = run("worker", "app:worker", "--processes", "2")
    send(out, b"1")
    out.receive(timeout=WAIT)
    send(out, b"die")
    pids: set[Any] = set()
    # The message that kills the process is delivered again after its lease, then it is rejected.
    while out._manager.queue_info("in").messages:
        send(out, b"x")
        pids.add(out.receive(timeout=WAIT).text.split()[1])
    assert len(pids) >= 2
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT) == 0


def test_processes_that_cannot_start_end_their_supervisor(run):
    process = run("worker", "app:nobody", "--processes", "2", stderr=subprocess.PIPE)
    _, text = process.communicate(timeout=WAIT)
    assert process.returncode == 2
    assert b"cannot run the worker, so all processes end" in text


def test_processes_end_when_their_supervisor_is_killed(run, out):
    process = run("worker", "app:worker", "--processes", "2")
    pids: set[int] = set()
    while len(pids) < 2:
        send(out, b"x")
        pids.add(int(out.receive(timeout=WAIT).text.split()[1]))
    process.kill()
    # Their output is a pipe that closes with the last process holding it; otherwise this raises TimeoutExpired.
    process.communicate(timeout=WAIT)


def test_json_log_names_the_server_handlers_and_failures(run, out, app, redis_server):
    log = app / "log"
    with log.open("wb") as stream:
        process = run("worker", "app:worker", "--log-format", "json", stderr=stream)
        send(out, b"1", b"fail")
        out.receive(timeout=WAIT)
        with out._manager.open("in;retry") as resting:
            resting.peek(WAIT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["level"] for line in lines] == ["INFO", "INFO", "ERROR", "INFO"]
    assert all(datetime.fromisoformat(line["time"]).tzinfo for line in lines)
    started, handles, failed, ended = (line["message"] for line in lines)
    assert f"mqredis {mqredis.__version__}, queue manager 'm', server redis " in started
    assert handles == "app.handle handles in, 1 at a time"
    assert failed.startswith("app.handle failed with message 0x04")
    assert failed.endswith(" of in in attempt 1 of 2: the next try is in 1 s")
    assert "ValueError" in lines[2]["error"]
    assert ended == f"worker {started.split()[1]} ended"


def test_logging_configured_by_the_application_is_kept(run, out, app):
    source = "import logging\nlogging.basicConfig(format='mine %(message)s', level='INFO')\n"
    (app / "app.py").write_text(source + APP.format(marker="first"))
    log = app / "log"
    with log.open("wb") as stream:
        process = run("worker", "app:worker", stderr=stream)
        send(out, b"1")
        out.receive(timeout=WAIT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
    assert {line[:5] for line in log.read_text().splitlines()} == {"mine "}


def test_reload_restarts_after_a_changed_file(run, out, app):
    process = run("worker", "app:worker", "--reload")
    send(out, b"1")
    assert out.receive(timeout=WAIT).text.startswith("first ")
    (app / "app.py").write_text(APP.format(marker="second"))
    while True:
        send(out, b"2")
        if out.receive(timeout=WAIT).text.startswith("second "):
            break
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT) == 0


@pytest.mark.parametrize("target", ["app", "nothing:worker", "app:nothing", ":", "app:Worker"])
def test_target_that_is_not_a_worker_is_a_usage_error(app, monkeypatch, target):
    monkeypatch.chdir(app)
    monkeypatch.syspath_prepend(str(app))
    assert main(["worker", target]) == 2


def test_each_process_has_its_own_health_file_and_metrics_port():
    assert _child_options(True, "alive", "0.0.0.0:9465", 1) == [
        "--health-file",
        "alive.2",
        "--metrics",
        "0.0.0.0:9466",
    ]
    assert _child_options(False, "alive", None, 0) == ["--health-file", "alive"]
    assert _child_options(True, None, None, 3) == []


def test_every_option_reaches_the_child_processes(monkeypatch):
    started: list[str] = []
    environments: list[dict[str, str]] = []

    class Supervised:
        def __init__(self, command, environment, _processes, own, **_):
            started.extend((*command, *own(0)))
            environments.append(environment)

        def run(self):
            return 0

    monkeypatch.setattr("mqredis.worker.command.Supervisor", Supervised)
    monkeypatch.setattr("mqredis.worker.logs.configure", lambda *_, **__: None)
    words = [
        "--url redis://elsewhere --manager m --burst --shutdown 3 --health-file alive --metrics 9465 --quiet",
        "--log-format json --json",
    ]
    given = ["worker", "app:worker", "--processes", "2", *" ".join(words).split()]
    assert main(given) == 0
    (parser,) = [a.choices["worker"] for a in build()._actions if isinstance(a.choices, dict)]
    options = {option for action in parser._actions for option in action.option_strings}
    options -= {"-h", "--help", "--processes", "--reload", "--url", "--read-only"}
    # A worker prints nothing, so --json has no effect; the URL may hold a password, which ps would show.
    assert options - {"--json"} == {word for word in started if word.startswith("--")}
    assert environments[0][_URL] == "redis://elsewhere"
    assert options - set(given) == set()


def test_exit_code_of_a_usage_error_is_that_of_the_command_line():
    assert _USAGE == Exit.USAGE


def test_module_of_the_tutorial_can_be_run_twice(app, run):
    page = (Path(__file__).parents[2] / "docs/learn/worker.md").read_text()
    (app / "shop.py").write_text("\n".join(re.findall(r"```python\n(# shop\.py.*?)```", page, re.DOTALL)))
    (target,) = re.findall(r"^mqredis worker (\S+)$", page, re.MULTILINE)
    for _ in range(2):
        assert run("worker", target, "--burst").wait(WAIT) == 0


@contextlib.contextmanager
def modules(folder: Path, monkeypatch: pytest.MonkeyPatch, **sources: str) -> Iterator[None]:
    """Modules with these sources in the working directory, which are forgotten at the end."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    try:
        yield
    finally:
        for name in sources:
            sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "source, told",
    [
        ("def f(:\n", "SyntaxError: "),
        ("import nosuchmodule\n", "ModuleNotFoundError: No module named 'nosuchmodule'"),
        ("from mqredis.worker import Worker\nworker = Worker(heartbeat_seconds=-1)\n", "InvalidArgument: "),
    ],
)
def test_import_error_shows_only_frames_of_the_imported_modules(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    source: str,
    told: str,
) -> None:
    with modules(tmp_path, monkeypatch, outer="import inner\n", inner=source):
        assert main(["worker", "outer:worker"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("mqredis: module 'outer' cannot be imported:\n")
    assert told in err
    files = [line.split('"')[1] for line in err.splitlines() if line.startswith("  File ")]
    assert [Path(name).name for name in files] == ["outer.py", "inner.py"]


@pytest.mark.parametrize(
    "target, told",
    [
        (
            "targets:wrker",
            "'targets:wrker' is not an instance of mqredis.worker.Worker; module 'targets' has worker",
        ),
        (
            "targets.py:worker",
            "module 'targets.py' was not found: start in its folder, and name it as in an import",
        ),
        ("targets", "name the worker as module:attribute, not 'targets'"),
    ],
)
def test_wrong_target_is_refused_with_the_right_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    target: str,
    told: str,
) -> None:
    with modules(tmp_path, monkeypatch, targets="from mqredis.worker import Worker\nworker = Worker()\n"):
        assert main(["worker", target]) == 2
    assert capsys.readouterr().err == f"mqredis: {told}\n"
