"""Doctor checks of messages: their records, positions and timers, and entries of lists and of the index.

``operations.doctor.checks`` lists it; ``run`` calls it. What is wrong in the order, the index and the lists is found by
lua/admin/audit.lua already; ``strays`` only reports it.

A row of lua/admin/audit.lua shows all keys of one message at one moment, so checks of one message are not
``across_keys``. ``enqueue.ids`` and ``copy.insert`` in Lua make the ids that ``records`` checks.
"""

from __future__ import annotations

import re

from mqredis import codec
from mqredis.codec.states import NOT_LOCKED
from mqredis.commands.doctor import Edit
from mqredis.errors import MqError
from mqredis.keys import AVAILABLE, INDEX, LOCKED, RECORDS, STATES, TIMERS
from mqredis.models.lookup_ids import LOOKUP_ID
from mqredis.models.record_parts import LARGE, has_bit
from mqredis.operations.doctor.fault import Fault, Faults, at, shown
from mqredis.operations.doctor.snapshot import Store
from mqredis.operations.doctor.stored import int_of, size_of, state_of, unlocked


def strays(store: Store) -> Faults:
    """Entries of lists and of the index belong to existing messages and have the right scores, and no index entry is
    missing."""
    for view in store.queues.values():
        for (part, member), value in view.strays.items():
            if part == STATES and not value:
                empty = Edit("hdel", view.keys[STATES], member)
                yield Fault(
                    "state.malformed", f"{view.path}: {shown(member)}", "its state is empty", (empty,)
                )
                continue
            edit = Edit("hdel" if part == STATES else "zrem", view.keys[part], member)
            text = f"{part} holds it, but no message of this id is there or has it ({value})"
            yield Fault(f"stray.{part}", f"{view.path}: {shown(member)}", text, (edit,))
        for (part, member), value in view.misplaced.items():
            edit = Edit("zadd", view.keys[part], member, 0)
            text = f"stands at {value} in {part}, where reads go by the order of equal scores"
            yield Fault(f"order.{part}", f"{view.path}: {shown(member)}", text, (edit,))
        for member in view.missing_index:
            edit = Edit("zadd", view.keys[INDEX], member, 0)
            yield Fault("index.missing", f"{view.path}: {shown(member)}", "is missing in the index", (edit,))
        for lid, size in view.bodies.items():
            yield Fault("body.orphan", at(view, lid), f"a body of {size} bytes without a message")


def records(store: Store) -> Faults:
    """Each message has a well-formed id and record, and its large body."""
    seq = int_of(store.hashes.get("meta", {}).get("seq"))
    for view in store.queues.values():
        for lid, record in view.records.items():
            where = at(view, lid)
            if not LOOKUP_ID.fullmatch(lid):
                yield Fault("record.id", where, "is not a lookup id")
                continue
            if int(lid[2:], 16) > seq and store.consistent:  # ``seq`` was read at another moment
                yield Fault("record.id", where, f"was never given out (SequentialID {seq})")
            try:
                message = codec.decode(view.path, "", lid.encode(), b"", record.head)
            except (MqError, ValueError, KeyError, IndexError) as error:
                # It blocks reads of its queue, but only an operator may delete it: it may show what was sent.
                give_up = f"HDEL {view.keys[RECORDS]} {lid} ^{lid}, and then mqredis doctor --repair"
                yield Fault("record.malformed", where, f"cannot be read: {error}. To give it up: {give_up}")
                continue
            # Messages of transactions and copies are in the order of their arrival.
            copied = message.original_queue is not None or message.message_class != 0
            sent_in_transaction = message.transaction_id is not None
            if not copied and int(lid[:2], 16) != (0 if sent_in_transaction else 7 - message.priority):
                yield Fault("record.priority", where, f"does not agree with priority {message.priority}")
            large = has_bit(record.head, LARGE)
            if large != (record.large is not None):
                yield Fault(
                    "body.missing" if large else "body.extra", where, "flag and large body do not agree"
                )


def positions(store: Store) -> Faults:
    """Each message is in exactly one place: available, locked or delayed."""
    for view in store.queues.values():
        for lid, record in view.records.items():
            state = state_of(record)
            where = at(view, lid)
            if record.state and state is None:
                yield Fault("state.malformed", where, f"state is {record.state!r:.60}")
                continue
            busy = state is not None and state.kind != NOT_LOCKED
            locked, available, lock = record.deadline is not None, view.keys[AVAILABLE], view.keys[LOCKED]
            edits: tuple[Edit, ...]
            if record.available and locked:
                edits = (Edit("zrem", available, lid),) if busy else (Edit("zrem", lock, lid),)
                yield Fault("position.double", where, "is available and locked", edits)
            elif record.available and busy:
                free = Edit("hset", view.keys[STATES], lid, unlocked(record.state))
                yield Fault("position.state", where, "is available, its state says locked", (free,))
            elif locked and not busy:
                edits = (Edit("zadd", available, lid, 0), Edit("zrem", lock, lid))
                yield Fault("position.state", where, "is locked, its state says by nobody", edits)
            elif not record.available and not locked and (record.delay is None or busy):
                edit = Edit("zadd", lock if busy else available, lid, 0)
                yield Fault("position.lost", where, "is neither available nor locked nor delayed", (edit,))
            if state is not None and state.size != size_of(record):
                text = f"its state says {state.size} bytes, it has {size_of(record)}"
                right = re.sub(r"^(\d+ \d+ \d+ \d+) \d+", rf"\g<1> {size_of(record)}", record.state)
                yield Fault("state.size", where, text, (Edit("hset", view.keys[STATES], lid, right),))
            if record.visible != (state is not None and state.visible and busy):
                edit = Edit("zrem" if record.visible else "zadd", view.keys[INDEX], f"v{lid}", 0)
                yield Fault(
                    "index.visible", where, "its mark for peeks does not agree with its state", (edit,)
                )


def timers(store: Store) -> Faults:
    """Exactly the available and delayed messages with a time to live have an expiry timer, and only delayed messages
    have a delay timer."""
    for view in store.queues.values():
        for lid, record in view.records.items():
            locked = record.deadline is not None
            if record.delay is not None and (record.available or locked):
                edit = Edit("zrem", view.keys[TIMERS], f"d{lid}")
                yield Fault("timer.delay", at(view, lid), "is delayed no more, but has a timer", (edit,))
            wanted = None if locked else record.expires
            if record.expiry != wanted:
                what = "zrem" if wanted is None else "zadd"
                edit = Edit(what, view.keys[TIMERS], f"e{lid}", "" if wanted is None else int(wanted))
                text = f"its expiry timer is {record.expiry}, must be {wanted}"
                yield Fault("timer.expiry", at(view, lid), text, (edit,))
