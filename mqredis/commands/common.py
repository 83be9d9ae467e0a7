"""What all commands share: the open queue they name, and refusals as exceptions."""

from __future__ import annotations

from dataclasses import dataclass, field

from mqredis import keys
from mqredis.errors import InvalidName, error_for
from mqredis.keys import KeySet, ManagerKeys
from mqredis.status import Status


def subqueue_parts(path: object) -> tuple[str, str]:
    """Split ``queue;subqueue``; the second part is empty for a queue. Raises InvalidName."""
    if not isinstance(path, str):
        raise InvalidName(f"queue name must be a str, not {type(path).__name__}")
    name, semicolon, sub = path.partition(";")
    name = keys.check_name(name)
    if semicolon:
        sub = keys.check_name(sub, "subqueue", keys.MAX_SUBQUEUE)
    return name, sub


@dataclass(slots=True)
class Address:
    """Where a queue's data are, and under which generation this handle knows it."""

    manager: ManagerKeys
    path: str
    generation: str = ""
    call: KeySet = field(init=False)

    def __post_init__(self) -> None:
        self.call = self.manager.call(*self.family)

    @property
    def family(self) -> tuple[str, ...]:
        """The queue itself, then the parent whose quota it counts in."""
        parent, semicolon, _ = self.path.partition(";")
        return (self.path, parent) if semicolon else (self.path,)


def check(status: int, message: str = "") -> None:
    """Raise the exception that stands for a refusal."""
    if status != Status.OK:
        raise error_for(status, message)


def number(data: bytes | int) -> int:
    """An integer of a reply."""
    return int(data)


def text(data: bytes | int) -> str:
    """A text of a reply."""
    return data.decode() if isinstance(data, bytes) else str(data)
