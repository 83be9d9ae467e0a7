"""Dead letters and poison messages, grouped by why they failed.

``console.pages`` has the route, and templates/failures.html puts ``Group.selector`` into the addresses of redrive and
purge.

So a selector must choose the messages of its group and no others (tests/console/test_failures.py). Its names are those
of selectors ("$reason", "$original_queue") and of the property ``ERROR``, which workers write; what ``_VARYING`` leaves
out is "%" in LIKE. A queue is read again when its counts have changed; the number that ever came is one of them, since
a message may leave while another comes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

from starlette.responses import Response

from mqredis.asyncio import QueueManager
from mqredis.console.shared import Console
from mqredis.console.visit import Visit
from mqredis.errors import QueueNotFound
from mqredis.models import Message
from mqredis.operations.failed import POISON, SYSTEM_DEAD_LETTERS
from mqredis.operations.giveback import REPORT

# The property with the error of the last attempt (mqredis/worker/failed_attempts.py).
ERROR = f"{REPORT}error"
# Messages of one queue that are grouped; of more the first are.
LOOKED_AT = 1000
# Groups shown of one queue.
GROUPS = 20


# Parts in which errors of one kind may differ: numbers, ids, times, and quoted texts. With the possessive
# repetition the time of a search is proportional to the length of the text.
_VARYING = re.compile(
    r"""'[^'\n]*'|"[^"\n]*"|\b(?=[a-f]*\d)[0-9a-f]++(?:[-:.,](?=[a-f]*\d)[0-9a-f]++)*\b|\d+""", re.IGNORECASE
)
# Shown in place of such a part.
ANY = "\u2026"


@dataclass
class Texts:
    """The texts of one kind in a group."""

    kind: str
    found: set[str] = field(default_factory=set)

    @property
    def shown(self) -> str:
        """The text that all have, or what they have in common."""
        return self.kind if len(self.found) > 1 else next(iter(self.found), "")

    def term(self, name: str) -> str:
        """The condition of a selector that chooses them, and may choose texts of other kinds (:meth:`chooses`)."""
        if not self.kind:
            return f"{name} IS NULL"
        if len(self.found) == 1:
            return f"{name} = {_quoted(self.shown)}"
        fixed = [re.sub(r"([%_!])", r"!\1", part) for part in self.kind.split(ANY)]
        return f"{name} LIKE {_quoted('%'.join(fixed))} ESCAPE '!'"

    def chooses(self, other: Texts) -> bool:
        """Does the condition choose a text of ``other``?"""
        if not self.kind or len(self.found) == 1:
            return self.shown in other.found
        pattern = re.compile(".*".join(map(re.escape, self.kind.split(ANY))), re.DOTALL)
        return any(pattern.fullmatch(text) for text in other.found if text)


@dataclass
class Group:
    """Messages that failed for the same reason, with an error of the same kind."""

    reason: Texts
    error: Texts
    origin: str
    first: datetime
    last: datetime
    count: int = 0
    # Groups whose messages the texts of this one would choose as well.
    within: list[Group] = field(default_factory=list)

    @property
    def selector(self) -> str:
        """A selector that chooses the messages of the group and of no other."""
        origin = f"$original_queue = {_quoted(self.origin)}" if self.origin else "$original_queue IS NULL"
        others = [f"NOT ({other.terms})" for other in self.within]
        return " AND ".join((self.terms, origin, *others))

    @property
    def terms(self) -> str:
        """The conditions of its reason and its error."""
        return f"{self.reason.term('$reason')} AND {self.error.term(ERROR)}"

    def chooses(self, other: Group) -> bool:
        """Do the conditions choose a message of ``other``?"""
        return (
            self.origin == other.origin
            and self.reason.chooses(other.reason)
            and self.error.chooses(other.error)
        )


@dataclass
class Failed:
    """A queue of failed messages."""

    name: str
    # Messages in it now, and how many ever came.
    counts: tuple[int, int]
    groups: list[Group]
    # Messages that were looked at for the groups.
    looked_at: int
    # Groups that are not shown.
    more: int

    @property
    def messages(self) -> int:
        """Messages in it."""
        return self.counts[0]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


async def failures(visit: Visit) -> Response:
    """Every queue of failed messages that has some."""
    return visit.page("failures.html", queues=await visit.reading(_failures), most=LOOKED_AT)


async def _failures(
    console: Console, manager_name: str, query: dict[str, str], before: list[Failed] | None
) -> list[Failed]:
    """The queues of failed messages. One that did not change since ``before`` is not read again."""
    state = await console.overview(manager_name).state(fresh=before is None)
    manager = await console.managers.get(manager_name)
    counts = {row.depth.name + POISON: (row.depth.poison, row.depth.poisoned) for row in state.rows}
    for name in SYSTEM_DEAD_LETTERS:
        if name in state.queues:
            depth = state.queues[name].depth
            counts[name] = (depth.messages, depth.total_in)
    wanted = query.get("queue") or None
    known = {failed.name: failed for failed in before or () if failed.counts == counts.get(failed.name)}
    return [
        known.get(name) or await _grouped(manager, name, each)
        for name, each in counts.items()
        if each[0] and wanted in (None, name)
    ]


async def _grouped(manager: QueueManager, name: str, counts: tuple[int, int]) -> Failed:
    groups: dict[tuple[str, str, str], Group] = {}
    looked_at, place = 0, None
    try:
        while looked_at < LOOKED_AT:
            page = await manager.messages(name, after=place, limit=200)
            for stored in page:
                _add(groups, stored.message)
            looked_at += len(page)
            place = page.next
            if place is None:
                break
    except QueueNotFound:  # deleted meanwhile
        pass
    found = sorted(groups.values(), key=lambda group: -group.count)
    for group in found[:GROUPS]:
        group.within = [other for other in found if group.chooses(other) and not other.chooses(group)]
    return Failed(name, counts, found[:GROUPS], looked_at, max(0, len(found) - GROUPS))


def _kind(text: str) -> str:
    """The text with its varying parts replaced; as it is, if nothing else would be left to tell it from others."""
    kind = _VARYING.sub(ANY, text)
    return kind if re.search(r"[^\W\d_]", kind) else text


def _add(groups: dict[tuple[str, str, str], Group], message: Message) -> None:
    reason = message.reason or ""
    error = str(message.properties.get(ERROR, ""))
    origin = message.original_queue or ""
    at = message.arrived_at
    kinds = _kind(reason), _kind(error)
    group = groups.setdefault((*kinds, origin), Group(Texts(kinds[0]), Texts(kinds[1]), origin, at, at))
    group.reason.found.add(reason)
    group.error.found.add(error)
    group.count += 1
    group.first, group.last = min(group.first, at), max(group.last, at)
