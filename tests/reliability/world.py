"""One queue manager under one schedule: what its clients know, and the ledger that says what must be in the store."""

from __future__ import annotations

from dataclasses import dataclass, field

from mqredis.commands.address import Address
from mqredis.keys import ManagerKeys
from tests.reliability.wire import Place


class Broken(AssertionError):
    """What the broker did is not what it promised."""


@dataclass(slots=True)
class Unit:
    """A transaction as the ledger knows it, by id and fence: an id may be used again."""

    name: str
    sent: list[str] = field(default_factory=list)
    received: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    deadline: int = 0
    ended: str = ""


@dataclass(slots=True)
class Client:
    """What one client knows: only what it was told."""

    name: str
    place: Place
    spare: int = 0
    fences: dict[str, str] = field(default_factory=dict)  # transaction -> fence
    locks: list[tuple[str, str]] = field(default_factory=list)  # fence, lookup id
    missing: tuple[str, ...] = ()
    ticket: str = ""
    limit: str = ""


@dataclass(slots=True)
class Claimed:
    """An owner's last claim: whose it is, its sequence, and the messages that are held under it."""

    lineage: str
    sequence: int
    committed: int
    ids: list[str] = field(default_factory=list)
    released: bool = False


class Ledger:
    """Where each message must be, by what the broker has answered so far. Keyed by lookup id."""

    def __init__(self) -> None:
        self.state: dict[str, str] = {}  # present, pending, taken, gone
        self.queue: dict[str, str] = {}
        self.names: dict[str, str] = {}  # label -> lookup id
        self.held: dict[str, tuple[str, int]] = {}  # fence or transaction, deadline
        self.purged: set[str] = set()  # held when the queue was purged
        self.brittle: set[str] = set()  # may expire
        self.units: dict[str, Unit] = {}
        self.quota: dict[str, int] = {}
        self.seen: set[str] = set()

    def unit(self, name: str, fence: str) -> Unit:
        """A transaction, from its first operation on."""
        return self.units.setdefault(f"{name}/{fence}", Unit(f"{name}/{fence}"))

    def sent(self, lid: str, queue: str, label: str, unit: str = "", brittle: bool = False) -> None:
        if lid in self.seen:
            raise Broken(f"lookup id {lid} was issued twice")
        self.seen.add(lid)
        self.state[lid] = "pending" if unit else "present"
        self.queue[lid], self.names[label] = queue, lid
        if unit:
            self.units[unit].sent.append(lid)
            self.held[lid] = (unit, 1 << 60)
        if brittle:
            self.brittle.add(lid)
        limit = self.quota.get(queue)
        if limit is not None and len(self.alive(queue, sure=True)) > limit:
            raise Broken(f"{queue} holds more than its quota of {limit}")

    def alive(self, queue: str, sure: bool = False) -> list[str]:
        """Messages that count in the queue; ``sure``: leave out what may have lapsed or expired."""
        return [
            lid
            for lid, state in self.state.items()
            if self.queue[lid] == queue
            and state in ("present", "pending")
            and not (sure and (state == "pending" or lid in self.brittle or lid in self.purged))
        ]

    def full(self, queue: str, count: int) -> None:
        """A send was refused for want of room."""
        limit = self.quota.get(queue)
        if limit is None or len(self.alive(queue)) + count <= limit:
            raise Broken(f"a send to {queue} was refused with room for it")

    def take(self, lid: str, now: int) -> None:
        """A message was read destructively."""
        self._free(lid, now)
        self.state[lid] = "taken"
        self.held.pop(lid, None)

    def hold(self, lid: str, by: str, deadline: int, now: int) -> None:
        self._free(lid, now)
        self.held[lid] = (by, deadline)

    def _free(self, lid: str, now: int) -> None:
        state = self.state.get(lid)
        if state == "pending":
            raise Broken(f"{lid} was read before its transaction was committed")
        if state != "present":
            raise Broken(f"{lid} was read although it is {state}")
        holder = self.held.get(lid)
        if holder and now < holder[1]:
            raise Broken(f"{lid} was read while {holder[0]} holds it")
        if lid in self.purged:
            raise Broken(f"{lid} was read after the queue was purged")

    def release(self, lid: str) -> None:
        self.held.pop(lid, None)
        if lid in self.purged and self.state[lid] == "present":
            self.state[lid] = "gone"

    def settled(self, action: str, fence: str, lid: str, lease_until: int) -> None:
        """A settlement was accepted."""
        holder = self.held.get(lid)
        if holder is None or holder[0] != fence:
            raise Broken(f"a settlement of {lid} with the stale fence {fence} was accepted")
        if action in "cj":
            if self.state[lid] != "present":
                raise Broken(f"{lid} was committed although it is {self.state[lid]}")
            self.state[lid] = "taken"
            self.held.pop(lid)
        elif action == "a":
            self.release(lid)
        else:
            self.held[lid] = (fence, lease_until)

    def end(self, unit: str, outcome: str) -> None:
        """A transaction ended."""
        work = self.units[unit]
        if work.ended:
            raise Broken(f"transaction {unit} is {work.ended} and was {outcome} again")
        work.ended = outcome
        for lid in work.sent:
            self.held.pop(lid, None)
            if self.state[lid] == "pending":
                self.state[lid] = "present" if outcome == "commit" else "gone"
        for lid in work.received:
            if self.held.get(lid, ("", 0))[0] != unit:
                continue
            if outcome == "commit" and self.state[lid] == "present":
                self.state[lid] = "taken"
                self.held.pop(lid)
            else:
                self.release(lid)
        for lid, target in work.moved.items():
            if self.held.get(lid, ("", 0))[0] == unit:
                if outcome == "commit":  # a purge of the source does not stop it
                    self.queue[lid] = target
                    self.purged.discard(lid)
                self.release(lid)

    def purge(self, queue: str, removed: int, locked: int) -> None:
        """A queue was purged at once."""
        free = 0
        for lid in self.alive(queue):
            if lid in self.purged or self.state[lid] == "pending":
                continue
            if lid in self.held:
                self.purged.add(lid)
            else:
                self.state[lid] = "gone"
                free += 1
        if not free - len(self.brittle) <= removed <= free + locked:
            raise Broken(f"purge removed {removed} of {free} messages")

    def delete(self, queue: str) -> None:
        for lid in self.state:
            if self.queue[lid] == queue and self.state[lid] in ("present", "pending"):
                self.state[lid] = "gone"
                self.held.pop(lid, None)

    def expected(self) -> dict[str, set[str]]:
        """At the end, when every lease is over: what must be where."""
        for unit in self.units.values():
            if not unit.ended:
                self.end(unit.name, "abort")
        for lid in list(self.held):
            self.release(lid)
        out: dict[str, set[str]] = {}
        for lid, state in self.state.items():
            if state == "present":
                out.setdefault(self.queue[lid], set()).add(lid)
        return out


@dataclass(slots=True)
class World:
    """A manager, its clients and its ledger."""

    keys: ManagerKeys
    session: str
    clients: dict[str, Client]
    ledger: Ledger = field(default_factory=Ledger)
    addresses: dict[str, Address] = field(default_factory=dict)
    slots: int = 0
    subscribed: set[str] = field(default_factory=set)
    clock_ms: int = 0  # how far the manager's clock was moved
    claims: dict[str, Claimed] = field(default_factory=dict)  # by owner

    def address(self, path: str) -> Address:
        found = self.addresses.get(path)
        if found is None:
            found = self.addresses[path] = Address(self.keys, path, "0")
        return found

    def new_place(self) -> Place:
        self.slots += 1
        return Place(f"{self.session}.{self.slots}")
