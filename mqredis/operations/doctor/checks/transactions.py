"""Doctor checks of open transactions and of the messages that they hold.

``operations.doctor.checks`` lists it; ``run`` calls it. It reads texts with ``codec.transactions``;
``tests/contract/test_stored_texts.py`` compares those with lua/transactions/tx.lua.
"""

from __future__ import annotations

from collections.abc import Mapping

from mqredis import keys
from mqredis.codec.states import IN_TRANSACTION, SENT
from mqredis.codec.transactions import KINDS, OperationRecord, TransactionRecord
from mqredis.commands.doctor import Edit
from mqredis.operations.doctor.fault import Fault, Faults, at
from mqredis.operations.doctor.snapshot import QueueView, Store
from mqredis.operations.doctor.stored import state_of, without_holder


def operations(store: Store) -> Faults:
    """A transaction has all its operations, and each of them names a message that it holds."""
    texts = store.hashes.get("txs", {})
    queues = {keys.encode(path): view for path, view in store.queues.items()}
    for name, text in texts.items():
        owner, colon, place = name.rpartition(":")
        if colon and place.isdigit() and owner in texts:
            record = TransactionRecord.parse(texts[owner])
            if record is None or 1 <= int(place) <= record.operations:
                yield from _operation(queues, owner, place, text)
                continue
        if colon and place.isdigit() and text[:1] in KINDS and text[1:2] == " ":
            edits = (Edit("hdel", store.key("txs"), name),)
            yield Fault("tx.orphan", name, "is an operation of no transaction", edits)
            continue
        record = TransactionRecord.parse(text)
        if record is None:
            yield Fault("tx.malformed", name, f"is {text!r:.60}")
            continue
        for k in range(1, record.operations + 1):
            if f"{name}:{k}" not in texts:
                yield Fault("tx.operation", name, f"its operation {k} of {record.operations} is missing")


def _operation(queues: Mapping[str, QueueView], owner: str, place: str, text: str) -> Faults:
    operation = OperationRecord.parse(text)
    if operation is None:
        yield Fault("tx.malformed", f"{owner}:{place}", f"is {text!r:.60}")
        return
    view = queues.get(operation.queue)
    record = view.records.get(operation.lookup_id) if view else None
    if record is None:
        return  # the message has gone with its queue, which the transaction finds out when it ends
    state = state_of(record)
    if state is None or state.owner != owner or state.kind != operation.state_kind:
        what = f"names message {operation.lookup_id}, which it does not hold"
        yield Fault("tx.message", f"{owner}:{place}", what)


def locked_messages(store: Store) -> Faults:
    """A message locked by a transaction is named by it, or its lease is over."""
    texts = store.hashes.get("txs", {})
    operations = ((name, OperationRecord.parse(text)) for name, text in texts.items())
    named = {(name.rpartition(":")[0], found.queue, found.lookup_id) for name, found in operations if found}
    for view in store.queues.values():
        for lid, record in view.records.items():
            state = state_of(record)
            if state is None or state.kind not in IN_TRANSACTION or record.deadline is None:
                continue
            if record.deadline <= store.now_ms:
                continue  # the next call on its queue takes it back; the id may be in use again by then
            lapse = Edit("zadd", view.keys[keys.LOCKED], lid, 0)
            if state.owner not in texts:
                text = f"locked by transaction {state.owner}, which does not exist"
                yield Fault("lock.owner", at(view, lid), text, (lapse,))
            elif (state.owner, keys.encode(view.path), lid) not in named:
                text = f"locked by transaction {state.owner}, which does not name it"
                edit = Edit("hset", view.keys[keys.STATES], lid, without_holder(record.state))
                edits = (edit, lapse) if state.kind != SENT else ()
                yield Fault("lock.owner", at(view, lid), text, edits)
