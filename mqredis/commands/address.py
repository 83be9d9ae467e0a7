"""The address of a queue: which keys its calls name. Every command on messages takes one.

``operations.handle`` makes the one of an open queue, which lasts as long as the handle; other operations and Spark's
readers make one for a few calls. ``operations.queue_call`` adds the queues that a script asks for (``bring``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mqredis import keys
from mqredis.keys import KeySet, ManagerKeys

# How many queues an address names besides its own before it forgets those that it needed once.
MAX_BESIDE = 24


@dataclass(slots=True)
class Address:
    """The keys of a queue, and its generation when its handle was opened."""

    manager: ManagerKeys
    path: str
    """Its name; "" if the script says which queues it needs."""
    generation: str = ""
    """A number that no other queue has had: with it a script refuses a call on a queue that was deleted since. "": not
    known, for scripts that do not ask for it."""
    call: KeySet = field(init=False)
    """The KEYS of its calls."""
    family: tuple[str, ...] = field(init=False)
    """The queue itself, then the parent whose quota it counts in."""
    beside: tuple[str, ...] = ()
    """Further queues that a script has asked for: journals, dead letters, administration queues, subscribers."""
    first: tuple[str, ...] = ()
    """The queues that come first in KEYS, if they are not the family."""
    extra: tuple[str, ...] = ()
    """Keys of the script that follow those of the queues."""

    def __post_init__(self) -> None:
        self.family = self.first or tuple(filter(None, (self.path, keys.parent_of(self.path))))
        self._name_keys()

    def _name_keys(self) -> None:
        named = self.manager.call(*self.family, *self.beside)
        self.call = KeySet(named.keys + self.extra) if self.extra else named

    def bring(self, paths: Sequence[str], forget: bool = True) -> None:
        """Name these queues, too, from now on. ``forget``: no more the occasional ones that it had, if many."""
        beside = self.beside
        if forget and len(beside) > MAX_BESIDE:
            beside = tuple(path for path in beside if keys.kept_by_broker(path))
        self.beside = beside + tuple(p for p in paths if p not in beside and p not in self.family)
        self._name_keys()
