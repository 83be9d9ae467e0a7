"""Doctor checks of dedup keys, retry policies and subscriptions of topics.

``operations.doctor.checks`` lists it; ``run`` calls it.

Change together with: ``POLICY`` matches what ``commands.queues.format_policy`` writes and lua/features/retry_policy.lua
reads; ``HELD`` is that of lua/features/dedup.lua, ``_RESTS`` are letters of lua/core/timers.lua.
``tests/contract/test_stored_texts.py`` and ``test_constants.py`` compare them.
"""

from __future__ import annotations

import re

from mqredis.codec.subscriptions import parse_subscription
from mqredis.commands.doctor import Edit
from mqredis.commands.queues import FLAGS, POLICY_FLAGS
from mqredis.keys import PROPERTIES, SUBSCRIPTION, TIMERS
from mqredis.models.lookup_ids import LOOKUP_ID
from mqredis.models.record_parts import LETTERS
from mqredis.operations.doctor.fault import Fault, Faults, at, shown
from mqredis.operations.doctor.snapshot import Store

# The score of a dedup key that a message in the queue holds (lua/features/dedup.lua); others have
# the end of their window.
HELD = 9_000_000_000_000_000
_RETRY = POLICY_FLAGS["retry"]
POLICY = re.compile(
    r"\d{1,9} \d{1,10} \d{1,16} \d+(\.\d+)?(e[+-]?\d+)? \d{1,16} (poison|dead_letter|reject|drop)"
    r" \d+(\.\d+)?(e[+-]?\d+)? [01] \S+"
)
# Timers of messages that rest, or are kept for a while in ;poison (lua/features/retry).
_RESTS = frozenset((b"b", b"s", b"w", b"p"))
_ID = re.compile(LOOKUP_ID.pattern.encode())
# The dedup key in a head, also one that no script acts on any more.
_KEY = re.compile(f"\x03{LETTERS['dedup_key']}([^\x01\x03\x00]*)".encode())


def dedup_keys(store: Store) -> Faults:
    """A dedup key is held by exactly one message of the queue and its subqueues, or for its window."""
    for view in store.existing():
        held = {member[1:] for member, score in view.policies.items() if member[:1] == b"k" and score >= HELD}
        if ";" in view.path:  # the parent queue holds the keys of its subqueues, too
            for key in held:
                edit = Edit("zrem", view.keys[TIMERS], b"k" + key)
                yield Fault("dedup.leak", f"{view.path}: {shown(key)}", "is held by a subqueue", (edit,))
            continue
        had: dict[bytes, str] = {}
        family = (
            v for path, v in store.queues.items() if path == view.path or path.startswith(f"{view.path};")
        )
        for member in family:
            for lid, record in member.records.items():
                match = _KEY.search(record.head)
                if match:
                    had[match[1]] = at(member, lid)
        for key in held - had.keys():
            edit = Edit("zrem", view.keys[TIMERS], b"k" + key)
            yield Fault("dedup.leak", f"{view.path}: {shown(key)}", "is held by no message", (edit,))
        for key in had.keys() - held:
            edit = Edit("zadd", view.keys[TIMERS], b"k" + key, HELD)
            yield Fault(
                "dedup.missing", had[key], f"has the dedup key {shown(key)} and does not hold it", (edit,)
            )


def retry_policies(store: Store) -> Faults:
    """A retry policy can be read, the queue's flag tells whether there is one, and its timers name messages."""
    for view in store.existing():
        if "flags" not in view.fields:
            continue
        text, flags = view.fields.get("retry", ""), view.fields["flags"]
        if text and not POLICY.fullmatch(text):
            yield Fault("retry.malformed", view.path, f"its retry policy is {text!r:.60}")
        elif ";" in view.path:
            pass  # a subqueue has the flags of its queue
        elif text and _RETRY not in flags:
            edit = Edit("hset", view.keys[PROPERTIES], "flags", flags + _RETRY)
            yield Fault("retry.flag", view.path, "has a retry policy and does not know it", (edit,))
        elif not text and _RETRY in flags:
            edit = Edit("hset", view.keys[PROPERTIES], "flags", flags.replace(_RETRY, ""))
            yield Fault("retry.flag", view.path, "follows a retry policy that it does not have", (edit,))
        for member in view.policies:
            if member[:1] in _RESTS and not _ID.fullmatch(member[1:]):
                edit = Edit("zrem", view.keys[TIMERS], member)
                yield Fault(
                    "retry.timer", f"{view.path}: {shown(member[1:])}", "rests and is no message", (edit,)
                )


def subscriptions(store: Store) -> Faults:
    """Only topics have subscriptions, and these can be read."""
    for view in store.queues.values():
        for name, text in view.fields.items():
            if not name.startswith(SUBSCRIPTION):
                continue
            where = f"{view.path}: {name.removeprefix(SUBSCRIPTION)}"
            if "flags" in view.fields and FLAGS["topic"] not in view.fields["flags"]:
                yield Fault("topic.flag", where, "is subscribed to a queue that is no topic")
                continue
            try:
                parse_subscription(text.encode())
            except ValueError:
                yield Fault("topic.subscription", where, f"its subscription is {text!r:.60}")
