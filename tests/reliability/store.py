"""Raw access to a store: calls, digests and findings of the doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mqredis.commands import queues
from mqredis.commands.address import Address
from mqredis.keys import ManagerKeys
from mqredis.models import QueueProperties
from mqredis.operations import doctor
from mqredis.operations.doctor import snapshot
from mqredis.operations.doctor.snapshot import Store
from mqredis.steps import Call, Refused
from tests.reliability.wire import Place, Refusal, Shot, Wire, fire
from tests.support.server import RedisServer


class Reader:
    """A raw connection to one manager of one server."""

    def __init__(self, server: RedisServer, manager: str = "r") -> None:
        self.server = server
        self.keys = ManagerKeys(manager)
        self.addresses: dict[str, Address] = {}
        self.fence = ""
        self._admin = 0
        self.wire = Wire(server)

    def connect(self) -> None:
        self.wire = Wire(self.server)

    def close(self) -> None:
        self.wire.close()

    def address(self, path: str) -> Address:
        return self.addresses[path]

    def create(self, path: str, **properties: Any) -> None:
        values = QueueProperties(**properties).model_dump()
        self._admin += 1
        answer = self.wire.volley(
            [fire(queues.create(self.keys, path, values), Place(f"1.{900 + self._admin}"))]
        )
        self.addresses[path] = Address(self.keys, path, answer[0].value)

    def call(self, call: Call[Any], place: Place) -> Any:
        """Make a call that must succeed and remember the fence in its reply."""
        [answer] = self.wire.volley([fire(call, place)])
        if isinstance(answer.value, Refusal):
            raise AssertionError(f"{call.script} was refused: {answer.value}")
        self.fence = getattr(answer.value, "fence", self.fence)
        return answer.value

    def store(self) -> Store:
        operation = iter(snapshot.take(self.keys))
        step = next(operation)
        while True:
            reply: Any = Refused("not searched", True)
            if isinstance(step, Call):
                [answer] = self.wire.volley([Shot(step, "0.0", 0)])
                reply = (int(answer.raw[0]), answer.raw[3:])
            try:
                step = operation.send(reply)
            except StopIteration as stop:
                found: Store = stop.value
                return found

    def faults(self) -> list[str]:
        """What the doctor finds."""
        return [f"{f.code} {f.where} {f.text}" for f in doctor.find(self.store()) if f.severity == "error"]

    def ids(self, path: str) -> set[str]:
        return set(self.store().queues[path].records)

    def counter(self, name: str) -> int:
        return int(self.store().hashes["meta"][name])

    def digest(self) -> list[bytes]:
        """Every key of the manager with its content."""
        out = []
        for key in sorted(self.wire.command("KEYS", self.keys.tag + "*")):
            kind = self.wire.command("TYPE", key)
            if kind == "hash" or kind == b"hash":
                flat = self.wire.command("HGETALL", key)
                rows = sorted(b"=".join(pair) for pair in zip(flat[::2], flat[1::2], strict=True))
            else:
                rows = self.wire.command("ZRANGE", key, 0, -1, "WITHSCORES")
            out.append(key + b":" + b",".join(rows))
        return out


def append_only_file(server: RedisServer) -> Path:
    """The file that the last writes are in: Redis 7 has a folder, older ones a file."""
    parts = sorted((server.directory / "appendonlydir").glob("*.incr.aof"))
    return parts[-1] if parts else server.directory / "appendonly.aof"
