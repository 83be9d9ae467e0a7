"""One raw connection: script calls of many managers in one pipeline, with slots and sequences of one's own."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hiredis

from mqredis import scripts
from mqredis.commands import manager as manager_commands
from mqredis.drivers.net.wire import pack, packed_command
from mqredis.errors import MqError
from mqredis.keys import ManagerKeys
from mqredis.scripts import Form
from mqredis.steps import Call, Payload
from tests.support.server import RedisServer, server_version

# Time to live of the sessions, in ms: longer than any schedule moves its clock.
TTL_MS = 86_400_000


@dataclass(frozen=True)
class Refusal:
    """A call was refused: the status, and what kind of error a client would have seen."""

    status: int
    kind: str


@dataclass(slots=True)
class Answer:
    """A reply of a script: as it came, and as the command reads it."""

    raw: list[Any]
    value: Any

    @property
    def refused(self) -> bool:
        return isinstance(self.value, Refusal)


@dataclass(slots=True)
class Place:
    """A slot of a session: name and the last sequence number used."""

    name: str
    last: int = 0


@dataclass(slots=True)
class Shot:
    """One call as it is sent: with the same slot and sequence it is a repetition."""

    call: Call[Any]
    slot: str
    sequence: int
    answers: list[Answer] = field(default_factory=list)

    def request(self, wire: Wire) -> bytes:
        token = self.slot, str(self.sequence) if self.sequence else ""
        return pack(self.call.keys, Form("EVALSHA", wire.sha(self.call.script), ()), *token, self.call.args)


def fire(call: Call[Any], place: Place) -> Shot:
    """The next call of a slot."""
    if not call.changes:
        return Shot(call, place.name, 0)
    place.last += 1
    return Shot(call, place.name, place.last)


class Wire:
    """A connection, and the scripts it has loaded. ``texts`` replaces bundles: the mutants of the mutation check."""

    def __init__(self, server: RedisServer, texts: dict[str, str] | None = None) -> None:
        self.server = server
        self.path: Path = server.socket_path
        self.texts = {} if texts is None else texts
        self._shas: dict[str, str] = {}
        self.calls = 0
        self._ear: socket.socket | None = None
        self.connect()

    def connect(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)
        self._socket.connect(str(self.path))
        self._reader = hiredis.Reader()

    def close(self) -> None:
        self._socket.close()
        if self._ear is not None:
            self._ear.close()

    def listen(self, channels: Sequence[str] = ()) -> None:
        """Subscribe to all wake channels, so that waiting readers count as alive, and to these by their exact names,
        as a client does: locks are handed over only to readers that are subscribed to their own channel."""
        self._ear = socket.socket(socket.AF_UNIX)
        self._ear.settimeout(30)
        self._ear.connect(str(self.path))
        self._ear.sendall(b"PSUBSCRIBE __keyspace@0__:*wake:*\r\n")
        self._ear.recv(4096)
        if channels:
            self._ear.sendall(" ".join(("SUBSCRIBE", *channels)).encode() + b"\r\n")
            confirmed = b""
            while confirmed.count(b"subscribe") < len(channels):
                confirmed += self._ear.recv(4096)
        self._ear.setblocking(False)

    def hear(self) -> None:
        """Take what has rung out of the way."""
        with contextlib.suppress(BlockingIOError):
            while self._ear is not None and self._ear.recv(1 << 18):
                continue

    __del__ = close

    def sha(self, name: str) -> str:
        found = self._shas.get(name)
        if found is None:
            script = scripts.get(name)
            text = self.texts.get(name) or script.text
            if server_version() >= (7,):  # older ones know no flags
                text = script.shebang + text.split("\n", 1)[1]
            loaded = self.command("SCRIPT", "LOAD", text)
            if isinstance(loaded, Exception):
                raise loaded
            found = self._shas[name] = loaded.decode()
        return found

    def command(self, *args: str | bytes | int) -> Any:
        """A plain command; an error reply is returned as the exception it is."""
        self._socket.sendall(packed_command(args))
        return self._read()

    def _read(self) -> Any:
        while (reply := self._reader.gets()) is False:
            data = self._socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._reader.feed(data)
        return reply

    def volley(self, shots: Sequence[Shot]) -> list[Answer]:
        """Send all, then read all."""
        requests = [shot.request(self) for shot in shots]
        answers: list[Answer] = []
        for at in range(0, len(shots), 256):
            self._socket.sendall(b"".join(requests[at : at + 256]))
            answers += [self._answer(shot) for shot in shots[at : at + 256]]
        self.calls += len(shots)
        return answers

    def _answer(self, shot: Shot) -> Answer:
        raw = self._read()
        if isinstance(raw, Exception):
            raise AssertionError(f"{shot.call.script} failed: {scripts.explain(shot.call.script, str(raw))}")
        payload: Payload = raw[3:]
        try:
            value = shot.call.parse(int(raw[0]), payload)
        except MqError as error:
            value = Refusal(int(raw[0]), type(error).__name__)
        answer = Answer(raw, value)
        shot.answers.append(answer)
        return answer

    def open_session(self, managers: Sequence[ManagerKeys]) -> list[str]:
        """Open a session in each manager, which is created with a test clock unless it is there."""
        calls = [
            Call(
                "session_open",
                keys.admin(),
                manager_commands.session_arguments(TTL_MS, "run", True, f"{number:016x}"),
                lambda status, payload: payload[0].decode() if status == 0 else _refused(status),
            )
            for number, keys in enumerate(managers)
        ]
        shots = [Shot(call, "", 0) for call in calls]
        return [str(answer.value) for answer in self.volley(shots)]


def _refused(status: int) -> str:
    raise AssertionError(f"session_open answered {status:#x}")
