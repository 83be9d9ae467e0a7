"""Shared parts of all commands: the address of an open queue, and exceptions for refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mqredis import keys
from mqredis.errors import InvalidName, error_for
from mqredis.keys import KeySet, ManagerKeys
from mqredis.status import Status

# How many queues a handle names besides its own before it forgets the occasional ones.
MAX_BESIDE = 24
# Characters of a lookup id, and its digits.
ID = 16
DIGITS = b"0123456789abcdef"


def subqueue_parts(path: object) -> tuple[str, str]:
    """Split ``queue;subqueue``; the second part is empty for a queue. Raises InvalidName."""
    if not isinstance(path, str):
        raise InvalidName(f"queue name must be a str, not {type(path).__name__}")
    name, semicolon, sub = path.partition(";")
    name = keys.check_name(name)
    if semicolon:
        sub = keys.check_name(sub, "subqueue", keys.MAX_SUBQUEUE)
    return name, sub


def path_of(path: object) -> str:
    """The name of a queue or subqueue in the form that is stored. Raises InvalidName."""
    name, sub = subqueue_parts(path)
    return f"{name};{sub}" if sub else name


@dataclass(slots=True)
class Address:
    """The keys of an open queue, and its generation when the handle was opened."""

    manager: ManagerKeys
    path: str
    generation: str = ""
    call: KeySet = field(init=False)
    family: tuple[str, ...] = field(init=False)
    """The queue itself, then the parent whose quota it counts in."""
    beside: tuple[str, ...] = ()
    """Further queues that a script has asked for: journals, dead letters, administration queues, subscribers."""
    first: tuple[str, ...] = ()
    """The queues that come first in KEYS, if they are not the family."""
    extra: tuple[str, ...] = ()
    """Keys of the script that follow those of the queues."""

    def __post_init__(self) -> None:
        self.family = self.first or _family(self.path)
        self._name_keys()

    def _name_keys(self) -> None:
        named = self.manager.call(*self.family, *self.beside)
        self.call = KeySet(named.keys + self.extra) if self.extra else named

    def bring(self, paths: Sequence[str]) -> None:
        """Name these queues, too, from now on. Occasional ones are forgotten again."""
        beside = self.beside
        if len(beside) > MAX_BESIDE:
            beside = tuple(path for path in beside if keys.kept(path))
        self.beside = beside + tuple(p for p in paths if p not in beside and p not in self.family)
        self._name_keys()


def _family(path: str) -> tuple[str, ...]:
    parent, semicolon, _ = path.partition(";")
    return (path, parent) if semicolon and not keys.own_quota(path) else (path,)


# A name of its own, since reading a member of an enumeration costs as much as a function call.
OK = int(Status.OK)


def check(status: int, message: str = "") -> None:
    """Raise the exception for a refusal."""
    if status != OK:
        raise error_for(status, message)


def joined(ids: bytes) -> bytes:
    """Lookup ids of a reply, one after the other: one at least. Raises ValueError for anything else."""
    # Deleting the digits and comparing with "" costs a quarter of a regular expression. For a single id ``strip`` is
    # faster than a translation table.
    size = len(ids)
    if not size or size % 16 or (ids.strip(DIGITS) if size == 16 else ids.translate(None, DIGITS)):
        raise ValueError(f"{ids!r:.80} are no lookup ids")
    return ids


def number(data: bytes | int) -> int:
    """An integer of a reply."""
    return int(data)


def text(data: bytes | int) -> str:
    """A text of a reply."""
    return data.decode() if isinstance(data, bytes) else str(data)
