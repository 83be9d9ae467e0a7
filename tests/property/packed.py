"""Databases with packed and with unpacked pages of claims, and their comparison."""

from __future__ import annotations

from typing import Any

from mqredis.codec.claims import Claim
from mqredis.commands import claims, manager, queues
from mqredis.commands.address import Address
from mqredis.commands.claims import Order
from mqredis.keys import QUEUE_PARTS
from mqredis.models import QueueProperties
from mqredis.steps import Call
from tests.property import fixed_clock
from tests.property.fixed_clock import KEYS, START, Store
from tests.support.backend import Backend

# Small pages, so that a few messages make many.
_SIZES = (
    "page_with_records = 256, page_without_records = 1000",
    "page_with_records = 4, page_without_records = 6",
)
# Where a page is found to be fit to be packed, or not.
_PACKED = (
    "may_pack = page.ids, page.records, {}, true",
    "may_pack = page.ids, page.records, {}, false",
)


class PackedStore(Store):
    """A database; if it is not ``packed`` a claim packs no page."""

    def __init__(self, client: Any, packed: bool) -> None:
        super().__init__(client)
        self.packed = packed

    def text(self, name: str) -> str:
        text = fixed_clock.text_of(name)
        assert name != "claim" or text.count(_SIZES[0]) == 1
        text = text.replace(*_SIZES)
        if not self.packed:
            assert name != "claim" or text.count(_PACKED[0]) == 1
            text = text.replace(*_PACKED)
        return text

    def call(self, call: Call[Any], slot: str, sequence: object) -> Any:
        self._texts.setdefault(call.script, self.text(call.script))
        reply = super().call(call, slot, sequence)
        if call.script == "queue_info":  # it tells all fields, as they are
            return reply[0], call.parse(0, reply[3:])
        return reply

    def restore(self, found: dict[bytes, Any]) -> None:
        """Restore the contents of another database."""
        self.client.flushdb()
        for key, value in found.items():
            if isinstance(value, dict):
                self.client.hset(key, mapping=value)
            else:
                self.client.zadd(key, dict(value))

    def loose(self) -> tuple[dict[bytes, Any], int]:
        """Return the contents with every page unpacked, and the number of messages in packed pages."""
        found, count = self.bytes(), 0
        for key in [key for key in found if key.endswith(b":q") and b"pages" in found[key]]:
            stem, books = key[:-1], []
            states, locks = found[stem + b"s"], found.setdefault(stem + b"l", [])
            for book in found[key][b"pages"].split(b";")[:-1]:
                number, first, upto, packed, loose, step, owner, sequence = book.split(b" ")
                count += int(packed)
                there = b"%d" % (int(packed) + int(loose))
                books.append(b" ".join((number, first, upto, b"0", there, step, owner, sequence)) + b";")
                for k in range(int(first), int(upto)):
                    ids, told = states[b"c%s:%d" % (number, k)], states[b"b%s:%d" % (number, k)]
                    if told.endswith(b"0"):
                        continue
                    states[b"b%s:%d" % (number, k)] = told[:-1] + b"0"
                    for lid in (ids[at : at + 16] for at in range(0, len(ids), 16)):
                        assert lid not in states
                        size = len(found[stem + b"m"][lid])
                        states[lid] = b"1 0 0 0 %d CN %s %s" % (size, owner, sequence)
                        locks.append((lid, 2.0**52 + int(number)))
            found[key] = {**found[key], b"pages": b"".join(books)}
            locks.sort(key=lambda item: (item[1], item[0]))
        return {key: value for key, value in found.items() if value}, count


def key(part: str) -> str:
    """A key of the queue."""
    return KEYS.queue("q")[QUEUE_PARTS.index(part)]


def forget_calls(found: dict[bytes, Any]) -> None:
    """Leave out the fields that depend on the number of calls."""
    meta = found[KEYS.admin().keys[0].encode()]
    for name in [name for name in meta if name.startswith(b"1.2")]:
        del meta[name]
    meta[b"counters"] = meta[b"counters"].split(b" ", 1)[1]


def forget_order(found: dict[bytes, Any]) -> None:
    """Leave out the order of messages in claims that are committed or released, which has no meaning."""
    for key in [key for key in found if key.endswith(b":q") and b"pages" in found[key]]:
        books, states = [], found.get(key[:-1] + b"s", {})
        for book in found[key].pop(b"pages").split(b";")[:-1]:
            number, *_, owner, _ = book.split(b" ")
            text = found[key].get(b"claim:" + owner, b"")
            claim = Claim.parse(text.decode()) if text else None
            if claim and (claim.number, claim.committed < claim.sequence) == (int(number), True):
                books.append(book)
                continue
            for field in [field for field in states if field[1:].startswith(number + b":")]:
                del states[field]
        if books:
            found[key][b"pages"] = sorted(books)
    for key in [key for key, value in found.items() if not value]:
        del found[key]


class SingleQueue:
    """Calls on one queue of one database."""

    def __init__(self, backend: Backend, transactional: bool = False) -> None:
        self.store, self.sequence = PackedStore(backend.client(), True), 0
        self.client = self.store.client
        self.client.flushdb()
        self.store.stand(START)
        opening = manager.session_arguments(10**9, "run", True, "0" * 16)
        self.call(Call("session_open", KEYS.admin(), opening, lambda *_: None))
        created = self.call(
            queues.create(KEYS, "q", QueueProperties(transactional=transactional).model_dump())
        )
        self.address = Address(KEYS, "q", created[3].decode())

    def call(self, call: Call[Any]) -> Any:
        self.sequence += 1
        token = ("", "") if call.script == "session_open" else ("1.1", self.sequence if call.changes else "")
        return self.store.call(call, *token)

    def claim(self, count: int) -> Any:
        return self.call(claims.claim(self.address, "lake", "x", 1, Order(count), first=True))

    def read(self, offset: int, count: int) -> list[bytes]:
        command = claims.read(self.address, "lake", "x", 1, offset, count)
        return command.parse(0, self.call(command)[3:])
