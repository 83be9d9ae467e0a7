"""A call that changes data has a history number: clients find lost changes by it, and repeated calls their replies."""

from __future__ import annotations

from tests.contract.monitor import script_calls
from tests.support.server import RedisServer

WRITES = {"hset", "hdel", "hincrby", "zadd", "zrem", "zremrangebylex", "zremrangebyrank", "unlink", "del"}
# Parts of a queue or a manager that calls change without a history number: registrations of waiting readers and what
# they need (w, i, the tickets in q), and the times at which sessions are looked at (idle). meta has the numbers.
UNNUMBERED = {"w", "i", "q", "idle", "meta"}


def numbers(commands: list[list[str]]) -> list[int]:
    """The history numbers in the counters that these commands write."""
    fields = [word for words in commands if words[0].lower() == "hset" for word in _pairs(words)]
    return [int(value.split()[0]) for name, value in fields if name == "counters"]


def changes(words: list[str]) -> bool:
    """Does this command write? A wake key exists only between two commands of a script."""
    return words[0].lower() in WRITES and ":wake:" not in words[1]


def _pairs(words: list[str]) -> list[tuple[str, str]]:
    return list(zip(words[2::2], words[3::2], strict=True)) if words[1].endswith(":meta") else []


def test_calls_that_change_data_have_a_history_number(redis_server: RedisServer) -> None:
    history, changing = 0, 0
    without: set[tuple[str, str]] = set()
    for call, commands in script_calls(redis_server):
        written = {words[1].rpartition(":")[2] for words in commands if changes(words)}
        found = max([history, *numbers(commands)])
        if parts := written - UNNUMBERED:
            changing += 1
            if found == history:
                without |= {(call[1], part) for part in parts}
        history = found
    assert changing > 100
    assert not without
