"""The broker's time, as users are shown it. ``publications`` and kombu's store compare stored times with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mqredis.operations.context import Context
from mqredis.steps import Steps, plain_command, procedure


@procedure
def broker_time(context: Context) -> Steps[tuple[datetime, int]]:
    """The present time, and the lead in ms that stored times have over it: steps back of the server's clock.

    Users are shown times without the lead (``context.shown`` in lua/core/context.lua). Raises BrokerRefused.
    """
    time: list[bytes] = yield from plain_command("TIME")
    moved: list[bytes | None] = yield from plain_command("HMGET", context.keys.own[0], "clock", "lead")
    clock, lead = (int(each or 0) for each in moved)
    now = datetime.fromtimestamp(int(time[0]) + int(time[1]) / 1_000_000, UTC)
    return now + timedelta(milliseconds=clock), lead
