"""What operators choose, and what their actions report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from mqredis.models.match import Match
from mqredis.models.queue import Model


class BulkResult(Model):
    """How far an action of an operator has got."""

    #: Messages that were changed, or counted, by all calls of the action together.
    changed: int
    #: Of the ``lookup_ids``: messages that a reader or a transaction holds.
    locked: int = 0
    #: Of the ``lookup_ids``: messages that are not in the queue, or not among those that the action takes.
    missing: int = 0
    #: Where the action goes on; None: it is finished.
    cursor: str | None = None

    @property
    def finished(self) -> bool:
        """True if nothing is left to do."""
        return self.cursor is None


class Choice(TypedDict, total=False):
    """Keyword arguments of the actions of an operator: which messages, and how far one call goes."""

    #: These messages, at most 256. None: all that agree with ``match`` and ``selector``.
    lookup_ids: Sequence[int] | None
    match: Match | None
    selector: str | None
    #: True: only delayed messages; False: only available ones; None: both.
    scheduled: bool | None
    #: How many messages at most. None: no limit.
    limit: int | None
    #: ``BulkResult.cursor`` of an action that was not finished: it goes on from there.
    cursor: str | None
    #: How many calls of the broker at most, of some hundred messages each. None: until the action is finished.
    steps: int | None
    #: Called after each call of the broker.
    progress: Callable[[BulkResult], None] | None
    #: An action that is repeated with this text within a day changes nothing and reports what the first one did.
    token: str | None
