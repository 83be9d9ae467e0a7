"""A call that changes data has a history number: clients find lost changes by it, and repeated calls their replies."""

from __future__ import annotations

import re

import mqredis
from mqredis.commands import contents
from mqredis.steps import perform
from tests.contract.monitor import script_calls
from tests.support.counts import count
from tests.support.server import RedisServer

WRITES = {"hset", "hdel", "hincrby", "zadd", "zrem", "zremrangebylex", "zremrangebyrank", "unlink", "del"}
# Parts of a queue or a manager that calls change without a history number: registrations of waiting readers and what
# they need (w, i, the tickets in q), and the times at which sessions are looked at (idle).
UNNUMBERED = {"w", "i", "q", "idle"}


def parts(call: list[str], words: list[str]) -> set[str]:
    """What a command of a call writes: parts of keys, and the slots of other calls in meta."""
    if ":wake:" in words[1]:  # a wake key exists only between two commands of a script
        return set()
    part = words[1].rpartition(":")[2]
    if part == "i" and any(word.startswith(("y", "z")) for word in words[2:]):
        return {"marks"}
    if part != "meta":
        return {part}
    slots = {field for field in words[2::2] if re.fullmatch(r"\d+\.\d+", field)}
    return {"slot"} if slots - {call[3 + int(call[2])]} else set()


def history(words: list[str]) -> int:
    """The history number in the counters that a command writes; 0 if it writes none."""
    if not words[1].endswith(":meta"):
        return 0
    fields = dict(zip(words[2::2], words[3::2], strict=False))
    return int(fields.get("counters", "0").split()[0])


def test_calls_that_change_data_have_a_history_number(redis_server: RedisServer) -> None:
    latest, changing = 0, 0
    without: set[tuple[str, str]] = set()
    for call, commands in script_calls(redis_server):
        writes = [words for words in commands if words[0].lower() in WRITES]
        written = {part for words in writes for part in parts(call, words)} - UNNUMBERED
        number = max((history(words) for words in writes), default=0)
        if written:
            changing += 1
            if number <= latest:
                without |= {(call[1], part) for part in written}
        latest = max(latest, number)
    assert changing > 100
    assert not without


def test_removal_of_marks_has_a_history_number_if_there_were_any(redis_server: RedisServer) -> None:
    """The doctor looks again if the number has changed."""
    settings = mqredis.Settings(allow_volatile=True)
    with redis_server.client() as raw, mqredis.connect(redis_server.url, settings=settings) as qm:
        qm.create_queue("q")
        queue = qm.open("q")
        queue.send(b"x")
        browser = queue.browser()
        browser.first(mark=mqredis.Mark.HANDLE)
        removal = contents.forget_marks(queue.handle.address, browser._browsing.name)
        for had_any in (True, False):
            before = count(raw, "mq:{default}:meta", "history")
            assert qm.run(perform(removal)) is had_any
            assert count(raw, "mq:{default}:meta", "history") == before + had_any


def test_search_that_builds_the_index_has_a_history_number(redis_server: RedisServer) -> None:
    """A repair of the index that was planned before is refused then."""
    settings = mqredis.Settings(allow_volatile=True)
    with redis_server.client() as raw, mqredis.connect(redis_server.url, settings=settings) as qm:
        qm.create_queue("q")
        queue = qm.open("q")
        queue.send(b"x", correlation_id="c")
        for builds in (True, False):
            before = count(raw, "mq:{default}:meta", "history")
            assert queue.peek(0, match=mqredis.Match(correlation_id="c")).body == b"x"
            assert count(raw, "mq:{default}:meta", "history") == before + builds
