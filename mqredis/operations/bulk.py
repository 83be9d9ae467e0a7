"""Actions of operators on messages that wait: delete, move, redrive, another time, another priority.

``Operator`` of both interfaces makes them; ``force`` checks its lookup ids with ``Chosen``.

Change together with: a new action needs a row in ``lua/admin/bulk_actions.lua``, a method of ``asyncio/operator.py``
with rows in ``tests/bad_input/test_every_call.py``, a sentence in ``console/sentences.py``, and a command in
``cli/operator.py``. A new field of ``Chosen`` is one of ``models.operator.Choice``, too.
``tests/contract/test_arguments.py`` compares actions, sentences and the text of a cursor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mqredis import keys
from mqredis.commands import bulk as commands
from mqredis.commands.address import Address
from mqredis.commands.bulk import AVAILABLE, DELAYED, Action
from mqredis.errors import InvalidArgument, TransactionUsage, UnsupportedAccess
from mqredis.keys import path_of
from mqredis.models import Access, Match, Share
from mqredis.models.operator import BulkResult
from mqredis.models.text import milliseconds
from mqredis.operations import actions, checks, matching
from mqredis.operations.context import Context
from mqredis.operations.handle import closing, open_handle, refuse_move
from mqredis.operations.matching import Selection
from mqredis.operations.open_queue import Handle
from mqredis.operations.queue import info
from mqredis.operations.queue_call import QueueCall
from mqredis.steps import Steps, procedure

# Lookup ids that one action takes.
MOST_IDS = 256
# Actions, by their names in the log, that take no available messages.
_DELAYED_ONLY = frozenset({"cancel", "run_now"})
# The text of lua/admin/bulk_progress.lua, which a caller gives back. It ends with a lookup id, or with the time and the
# name of a timer, in which a dedup key may stand, a text without lone surrogates.
_CURSOR = re.compile(
    r"\d+,\d+,\d+,[0-9a-f]{14},\d+,([0-9a-f]{16})?,(a,([0-9a-f]{16})?|d,(\d+[a-z][^\ud800-\udfff]*)?)",
    re.ASCII,
)


@dataclass(slots=True)
class Chosen:
    """Which messages an action takes, and how many in one call (``models.operator.Choice``)."""

    lookup_ids: Sequence[int] | None = None
    match: Match | None = None
    selector: Selection = None
    scheduled: bool | None = None
    limit: int | None = None
    cursor: str | None = None
    steps: int | None = None
    progress: Callable[[BulkResult], None] | None = None
    token: str | None = None

    def check(self) -> list[str]:
        """The lookup ids in hexadecimal. Raises InvalidArgument, MatchOptionsError, SelectorSyntaxError."""
        matching.check(self.match, self.selector)
        if self.scheduled is not None:
            checks.flag(self.scheduled, "scheduled")
        if self.limit is not None:
            checks.count(self.limit, "limit", 1 << 53)
        if self.steps is not None:
            checks.count(self.steps, "steps", 1 << 53)
        if self.progress is not None and not callable(self.progress):
            raise InvalidArgument(f"progress must be a function of a BulkResult, not {self.progress!r:.40}")
        cursor: object = self.cursor
        if cursor is not None and not (isinstance(cursor, str) and _CURSOR.fullmatch(cursor)):
            raise InvalidArgument(f"cursor must be one that a BulkResult has, not {self.cursor!r:.40}")
        if self.token is not None:
            checks.name(self.token, "token")
        if self.lookup_ids is None:
            return []
        if any(other is not None for other in (self.match, self.selector, self.limit, self.cursor)):
            raise InvalidArgument("give either lookup_ids, or match, selector, limit and cursor")
        ids = [checks.lookup_id(lookup_id) for lookup_id in checks.several(self.lookup_ids, "lookup_ids")]
        if not 1 <= len(ids) <= MOST_IDS:
            raise InvalidArgument(f"lookup_ids must hold from 1 to {MOST_IDS} ids, not {len(ids)}")
        return ids


@dataclass(slots=True)
class Job:
    """An action on chosen messages of one queue."""

    path: str
    action: Action
    chosen: Chosen
    lookup_ids: Sequence[str]
    match: bytes
    entry: bytes = b""
    """The details for the log."""

    def call(self, context: Context, cursor: str) -> QueueCall[BulkResult]:
        """Make one call, which continues at ``cursor``."""
        chosen = self.chosen
        beside: tuple[str, ...] = ()
        # Each page has a key of its own, by its cursor. A field of Chosen that changes what is done belongs here, too.
        depends_on = self.path, self.action, self.match, chosen.limit, cursor, self.lookup_ids
        extra = actions.token_key(context.keys, chosen.token, *depends_on)
        if self.action.name in ("move", "restore"):
            target = keys.decode(self.action.value)
            beside = (target,) if target != self.path.partition(";")[0] else ()
        address = Address(context.keys, self.path, extra=extra, beside=beside)
        call = commands.bulk(
            address, self.entry, self.action, chosen.limit, cursor, self.match, self.lookup_ids
        )
        # Messages go back to subqueues that were deleted meanwhile, since they had become empty.
        return QueueCall(address, call, subqueues=self.action.name == "restore")

    def run(self, context: Context) -> Steps[BulkResult]:
        """Make all calls, or as many as the choice allows."""
        cursor, steps = self.chosen.cursor or "", 0
        while True:
            result = yield from self.call(context, cursor)
            steps += 1
            if self.chosen.progress is not None:
                self.chosen.progress(result)
            if result.cursor is None or steps == self.chosen.steps:
                return result
            cursor = result.cursor


@procedure
def bulk(
    context: Context,
    operator: actions.Author,
    queue: object,
    action: Action,
    choice: Mapping[str, Any],
    title: str = "",
) -> Steps[BulkResult]:
    """Carry out an action on the chosen messages. ``title``: its name in the log, if it differs.

    ``choice``: the fields of :class:`Chosen`. Raises InvalidArgument, UnsupportedAccess, QueueNotFound. If the reply of
    a page is lost, the pages before are done, and with a token a repeated call does none of them again.
    """
    unknown = choice.keys() - Chosen.__slots__
    if unknown:
        raise InvalidArgument(f"an action takes no argument {min(unknown)!r:.60}")
    path, chosen = path_of(queue), Chosen(**choice)
    ids = chosen.check()
    if title in _DELAYED_ONLY and not chosen.scheduled:
        raise InvalidArgument(
            f"{title} takes delayed messages only, so scheduled must be True if it is given"
        )
    if chosen.scheduled is not None:
        action = Action(action.name, action.value, DELAYED if chosen.scheduled else AVAILABLE)
    match = b"" if ids else matching.operator_filter(context, chosen.match, chosen.selector)
    if action.name == "trash" and not keys.has_trash(path):
        raise UnsupportedAccess(
            "messages of a journal, of a queue of the system or of the trash itself are not kept in the trash: "
            "delete them without it"
        )
    if action.name == "due" and not chosen.scheduled and keys.kept_by_broker(path):
        raise UnsupportedAccess(
            f"the broker itself moves or deletes the messages in {path!r}: only delayed ones can get another time"
        )
    job = Job(path, action, chosen, ids, match)
    if action.name != "count":
        job.entry = _entry(operator, title or action.name, path, action, chosen, ids)
    if action.name == "redrive" and action.value:
        yield from info(context, keys.decode(action.value))
    if action.name not in ("move", "restore"):
        return (yield from job.run(context))
    # A subqueue exists for as long as it is open or holds a message.
    handle = yield from _open_target(context, path, keys.decode(action.value))
    return (yield from closing(handle, job.run(context)))


def _entry(
    operator: actions.Author, title: str, path: str, action: Action, chosen: Chosen, ids: Sequence[str]
) -> bytes:
    details = {
        "value": action.value,
        "lookup_ids": ids,
        "match": None if chosen.match is None else chosen.match.model_dump(exclude_none=True),
        "selector": None if chosen.selector is None else str(chosen.selector),
        "scheduled": chosen.scheduled,
        "limit": chosen.limit,
    }
    return actions.entry(operator, title, path, details)


def _open_target(context: Context, source: str, target: str) -> Steps[Handle]:
    """Open the queue that messages move to. Raises InvalidArgument, UnsupportedAccess, QueueNotFound."""
    if target == source or target.partition(";")[0] != source.partition(";")[0]:
        raise InvalidArgument(
            f"messages move between a queue and its subqueues; {source!r} and {target!r} are not related. "
            "To send them to another queue, use redrive with to= (--to)"
        )
    refuse_move(source, target)
    return (yield from open_handle(context, target, Access.MOVE, Share.DENY_NONE))


def trash_or_delete(trash: float | None) -> Action:
    """Delete for good, or move to ``;trash`` for this many seconds. Raises InvalidArgument."""
    if trash is None:
        return Action("delete")
    return Action("trash", str(milliseconds(checks.seconds(trash, "trash", positive=True))))


def moving(target: object) -> Action:
    """Move to this queue or subqueue. Raises InvalidName."""
    return Action("move", keys.encode(path_of(target)), AVAILABLE)


def restoring(queue: object) -> Action:
    """Move from ``;trash`` to where the messages were, in this queue or its subqueues. Raises InvalidName."""
    return Action("restore", keys.encode(path_of(queue)))


def redriving(to: object) -> Action:
    """Send back to where the messages came from, or to this queue. Raises InvalidName."""
    return Action("redrive", "" if to is None else keys.encode(keys.check_name(to)), AVAILABLE)


def due(delay: float | None, at: datetime | None) -> Action:
    """Make messages available ``delay`` seconds from now, or at a time. Raises InvalidArgument."""
    if (delay is None) == (at is None):
        raise InvalidArgument("give either delay, in seconds from now, or at")
    if at is None:
        return Action("due", f"+{milliseconds(checks.seconds(delay, 'delay', negative=False))}")
    if not isinstance(at, datetime) or at.tzinfo is None:  # type: ignore[redundant-expr]  # callers may err
        raise InvalidArgument(f"at must be a datetime with a time zone, not {at!r:.60}")
    ms = int(at.timestamp() * 1000)
    if not 0 <= ms <= 1 << 52:
        raise InvalidArgument(f"at must lie after 1970, not {at}")
    return Action("due", str(ms))


@procedure
def change_priority(
    context: Context, operator: actions.Author, queue: object, priority: object, choice: Mapping[str, Any]
) -> Steps[BulkResult]:
    """Give messages another priority, from 0 to 7."""
    path, wanted = path_of(queue), checks.count(priority, "priority", 7, least=0)
    if keys.is_journal_or_system(path):
        raise UnsupportedAccess("messages of a journal or of a queue of the system have no priority")
    found = yield from info(context, path)
    if found.transactional:
        raise TransactionUsage(
            f"queue {path!r} is transactional: its messages are in the order of their sends"
        )
    return (yield from bulk(context, operator, path, Action("priority", str(wanted)), choice))
