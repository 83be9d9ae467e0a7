"""Doctor checks of sessions, their slots, their open handles and their waiting readers.

``operations.doctor.checks`` lists it; ``run`` calls it.

Change together with: lua/core/session.lua and lua/core/handle.lua, which describe sessions, slots and handles;
lua/waiting/waiter_text.lua and lua/waiting/match_waiters.lua, which write waiting readers and their tickets
(``tests/contract/test_constants.py``).
"""

from __future__ import annotations

import re

from mqredis import keys
from mqredis.commands.doctor import Edit
from mqredis.commands.waiting import KINDS, NOTIFY_MODES
from mqredis.operations.doctor.fault import Fault, Faults
from mqredis.operations.doctor.snapshot import Store
from mqredis.operations.doctor.stored import int_of

# A member of a list of waiters (lua/waiting/waiter_text.lua): slot, registration and filter.
_WAITER = re.compile(
    rf"(\d+)\.\d+ [{''.join(KINDS)}] [{''.join(NOTIFY_MODES)}]\d+ [^ ,]+(?:,\d+)?( .*)?", re.DOTALL
)
# What a slot was handed begins with one of these letters (`handed` there).
HANDED = "hnmc"


def sessions(store: Store) -> Faults:
    """Sessions, their slots and the list of idle ones agree."""
    kept = store.hashes.get("sessions", {})
    idle = store.zsets.get("idle", {})
    key = store.key("meta")
    last = int_of(store.hashes.get("meta", {}).get("sessno"))
    for name, value in kept.items():
        number, dot, place = name.partition(".")
        edits = (Edit("hdel", key, name),)
        if not re.fullmatch(r"\d+(\.\d+!?)?", name):
            yield Fault("session.malformed", name, "is neither a session nor a slot", edits)
        elif not dot:
            if not re.fullmatch(r"\d{1,16}( \d{1,9})?", value):
                yield Fault("session.malformed", number, f"its time to live and highest slot are {value!r}")
            elif number not in idle:
                edit = Edit("zadd", store.key("idle"), number, store.now_ms)
                yield Fault("session.idle", number, "is not among the sessions to look at", (edit,))
            if int(number) > last:
                yield Fault("session.number", number, f"was never given out (last: {last})")
        elif place.endswith("!"):
            if not re.match(f"[{HANDED}] ", value):
                yield Fault("slot.malformed", name, "what it was handed cannot be read", edits)
            elif number not in kept:
                yield Fault(
                    "slot.left", name, "was handed something after its session ended", edits, "notice"
                )
        elif number not in kept:
            yield Fault("slot.orphan", name, "its session does not exist", edits)
        elif not re.match(r"\d+ \d+ \S", value):
            yield Fault("slot.malformed", name, "its last sequence and reply cannot be read")
    for name in store.hashes.get("meta", {}):
        if name.startswith(keys.CLIENT) and name.removeprefix(keys.CLIENT) not in kept:
            edits = (Edit("hdel", key, name),)
            yield Fault("session.client", name, "tells of a session that is gone", edits, "notice")
    for number in idle.keys() - kept.keys():
        edits = (Edit("zrem", store.key("idle"), number),)
        yield Fault("session.idle", number, "is to be looked at but does not exist", edits)


def handles(store: Store) -> Faults:
    """Handles are well formed; those of sessions or queues that are gone are left over."""
    names = {keys.encode(path) for path in store.queues}
    for member in store.zsets.get("handles", {}):
        edits = (Edit("zrem", store.key("handles"), member),)
        match = re.fullmatch(r"([^|]+)\|(\d+)\|[^|]+\|[a-z]+\|[a-z_]+", member)
        if match is None:
            yield Fault("handle.malformed", member, "is not a handle", edits)
        elif match[2] not in store.hashes.get("sessions", {}):
            yield Fault("handle.left", member, "belongs to a session that is gone", edits, "notice")
        elif match[1] not in names:
            yield Fault("handle.left", member, "is open on a queue that is gone", edits, "notice")


def waiters(store: Store) -> Faults:
    """Waiting readers are well formed; readers of ended sessions are removed."""
    for view in store.queues.values():
        for member, ticket in view.waiters.items():
            match = _WAITER.fullmatch(member)
            # Readers of particular messages come before the others, see waiting/match_waiters.lua.
            if ticket < 0:
                ticket += 1 << 50 if ticket > -(1 << 50) else 1 << 51
            edits = (Edit("zrem", view.keys[keys.WAITERS], member),)
            where = f"{view.path}: {member}"
            if match is None:
                yield Fault("waiter.malformed", where, "is not a waiting reader", edits)
            elif not 1 <= ticket <= int_of(view.fields.get("tickets")):
                yield Fault(
                    "waiter.ticket", where, f"holds ticket {ticket:.0f}, which was never given out", edits
                )
            elif match[1] not in store.hashes.get("sessions", {}):
                yield Fault("waiter.left", where, "belongs to a session that is gone", edits, "notice")
