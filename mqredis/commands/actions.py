"""operator_record.lua: entries of the log for actions that other calls carry out.

``mqredis.operations.actions`` calls it.
"""

from __future__ import annotations

from collections.abc import Sequence

from mqredis import keys
from mqredis.commands.replies import check, text
from mqredis.keys import KeySet, ManagerKeys
from mqredis.status import Status
from mqredis.steps import Call, Payload


def record(
    manager: ManagerKeys,
    paths: Sequence[str],
    extra: tuple[str, ...],
    entry: bytes,
    outcome: str,
    changed: int,
) -> Call[tuple[tuple[bool, str], list[str]]]:
    """Begin an action, or end it with an outcome. ``changed``: how many messages it has changed.

    Answers whether it begins or ends now, and its outcome; and queues that have to be named as well.
    """

    def parse(status: int, payload: Payload) -> tuple[tuple[bool, str], list[str]]:
        if status == Status.KEYS_CHANGED:
            return (False, ""), [keys.decode(text(item)) for item in payload]
        check(status)
        return (text(payload[0]) == "1", text(payload[1])), []

    args: list[str | bytes] = ["1", entry, outcome, str(changed)]
    return Call("operator_record", KeySet((*manager.call(*paths).keys, *extra)), args, parse)
