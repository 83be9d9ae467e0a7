"""Doctor checks of trails, which are fields of ``meta``, and of the share of messages that get one.

``operations.doctor.checks`` lists it; ``run`` calls it. The names of the fields are those of
lua/features/trail_store.lua; ``tests/contract/test_constants.py`` compares ``PLACES``, ``test_stored_texts.py`` the
text that ``codec.trails`` reads.
"""

from __future__ import annotations

import re

from mqredis.codec.trails import TrailRecord
from mqredis.commands.doctor import Edit
from mqredis.commands.queues import POLICY_FLAGS
from mqredis.keys import PROPERTIES, TRAIL
from mqredis.operations.doctor.fault import Fault, Faults
from mqredis.operations.doctor.snapshot import Store
from mqredis.operations.doctor.stored import field_of, int_of

_NAME = re.compile(rf"{TRAIL}([0-9a-f]{{14}})")
# The field that names a trail whose message has left, and how many such fields there are
# (lua/features/trail_store.lua).
_PLACE = re.compile(rf"{TRAIL}#(\d{{1,3}})")
PLACES = 1000
# The field that names the message which was last sent to a queue with a message id.
_ID = re.compile(rf"{TRAIL}=\S+ (\S+)")


def trails(store: Store) -> Faults:
    """Each trail belongs to a message in a queue, or to one of the last messages that left."""
    found, key = store.hashes.get("trails", {}), store.key("meta")
    marked = set()
    for view in store.queues.values():
        for lid, record in view.records.items():
            own = field_of(record, "trail")
            if own is not None:
                marked.add(own or lid[2:])
    ended = int_of(store.hashes.get("meta", {}).get("trails"))
    for name, text in found.items():
        edits = (Edit("hdel", key, name),)
        number, place = _NAME.fullmatch(name), _PLACE.fullmatch(name)
        if place and re.fullmatch(r"[0-9a-f]{14}", text):
            continue
        if chosen := _ID.fullmatch(name):
            named = TrailRecord.parse(found.get(f"{TRAIL}{text[2:]}", ""))
            if named is None or named.message_id != chosen[1]:
                yield Fault(
                    "trail.id", name, f"there is no trail of the message {text!r:.80} with this id", edits
                )
            continue
        record_ = TrailRecord.parse(text) if number else None
        if number is None or record_ is None:
            yield Fault("trail.malformed", name, f"is {text!r:.80}", edits)
        elif record_.end == 0:
            if number[1] not in marked:
                yield Fault("trail.orphan", name, "its message is not there, and has not left", edits)
        elif record_.end > ended or found.get(f"{TRAIL}#{record_.end % PLACES}") != number[1]:
            yield Fault("trail.left", name, "its message has left, and nothing would remove it", edits)


def shares(store: Store) -> Faults:
    """The share of messages that get a trail can be read, and is above 0 if the queue's flag says that it has trails.

    ``commands.queues`` writes it as the text of a float; ``trail.share`` in lua/features/trail.lua reads it, and only
    if there is the flag, so a share without it does no harm.
    """
    for view in store.queues.values():
        if ";" in view.path:  # it has the flags of its queue, and takes no message that is sent
            continue
        share = view.fields.get("trail", "0.0")
        wanted = POLICY_FLAGS["trail"] in view.fields.get("flags", "")
        if not re.fullmatch(r"[01](\.\d+)?|\d(\.\d+)?e-\d+", share) or (wanted and float(share) == 0):
            edits = (Edit("hset", view.keys[PROPERTIES], "trail", "1.0" if wanted else "0.0"),)
            yield Fault("queue.trail", view.path, f"the share of its trails is {share!r}", edits)
