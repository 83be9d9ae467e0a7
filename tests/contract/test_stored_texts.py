"""Stored texts are formatted and parsed alike by their Lua modules and by their Python classes."""

from __future__ import annotations

import itertools
import random
import re
import string
import time
from collections.abc import Iterator
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from mqredis import codec, keys, scripts
from mqredis.codec.claims import COMPLETE, FILLING, RELEASED, Claim, PageList
from mqredis.codec.history import Counters, History, Item
from mqredis.codec.sinks import NONE, SinkRecord, StageRecord
from mqredis.codec.states import kind_of
from mqredis.codec.subscriptions import format_subscription, parse_subscription
from mqredis.codec.trails import EntryRecord, TrailRecord
from mqredis.codec.transactions import KINDS, OperationRecord, TransactionRecord
from mqredis.commands.queues import format_policy, parse_policy
from mqredis.models import Outgoing, RetryPolicy, record_parts
from mqredis.models.text import time_at
from mqredis.operations import giveback
from mqredis.operations.doctor.checks.claims import NEVER
from mqredis.operations.doctor.checks.keys import TYPES
from mqredis.operations.doctor.checks.policies import HELD, POLICY
from mqredis.operations.doctor.snapshot import Record
from mqredis.operations.doctor.stored import State, state_of, unlocked
from mqredis.selector.names import View
from mqredis.worker import Worker
from mqredis.worker.failed_attempts import FailedAttempts, attempt
from mqredis.worker.shutdown import Shutdown

lupa = pytest.importorskip("lupa.lua51", reason="the embedded server brings Lua 5.1 for Python")
# Numbers that a text may hold: small ones, those of a clock in ms, and the largest that Lua counts exactly.
NUMBERS = (0, 1, 9, 10, 4096, 1_764_000_000_000, 2**53 - 1)
NAME = string.ascii_letters + string.digits + "._-%"
HEX = "0123456789abcdef"


@pytest.fixture
def rng() -> random.Random:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    return random.Random(seed)


def module(path: str, before: str = "", encoding: str | None = "utf-8") -> Any:
    """Return the table of a Lua module, after the code ``before``; functions that format and parse need no other
    module."""
    text = (scripts.root() / f"{path}.lua").read_text()
    code = f"{before}\n{text}\nreturn {path.rpartition('/')[2]}"
    runtime = lupa.LuaRuntime(encoding=encoding)
    return runtime.execute(code if encoding else code.encode())


def word(rng: random.Random, letters: str = NAME, size: int = 0) -> str:
    return "".join(rng.choice(letters) for _ in range(size or rng.randrange(1, 20)))


def number(rng: random.Random) -> int:
    return rng.choice((*NUMBERS, rng.randrange(10**6)))


# ---- the texts as they are stored, which only the scripts write -----------------------------------


def joined(*parts: object) -> str:
    return " ".join(map(str, parts))


def transaction_text(record: TransactionRecord) -> str:
    return joined(record.deadline_ms, record.fence, record.operations, record.session, record.since_ms)


def operation_text(record: OperationRecord) -> str:
    end = f" {record.target}" if record.target else f"  {record.reason}" if record.reason else ""
    return joined(record.kind, record.queue, record.lookup_id) + end


def claim_text(claim: Claim) -> str:
    *parts, draining = (getattr(claim, field.name) for field in fields(claim))
    return joined(*parts, draining) if draining else joined(*parts)


def page_list_text(pages: PageList) -> str:
    return joined(*(getattr(pages, field.name) for field in fields(pages))) + ";"


def item_text(item: Item) -> str:
    numbers = (
        *(getattr(item.counted, field.name) for field in fields(Counters)),
        (item.age or 0) + (item.age is not None),
    )
    return (",".join(map(to_base_36, numbers)) if any(numbers) else "") + ";"


def to_base_36(value: int) -> str:
    text, rest = "", abs(value)
    while rest:
        rest, digit = divmod(rest, 36)
        text = (string.digits + string.ascii_lowercase)[digit] + text
    return f"-{text}" if value < 0 else text


def history_text(history: History) -> str:
    before = history.before
    head = joined(history.bucket, before.came, before.left, before.failed, before.retried, "")
    return head + "".join(map(item_text, history.items))


def entry_text(entry: EntryRecord) -> str:
    return joined(*(getattr(entry, field.name) for field in fields(entry)))


def trail_text(trail: TrailRecord) -> str:
    head = joined(trail.end, trail.omitted, trail.message_id).rstrip(" ")
    return "\n".join([head, *map(entry_text, trail.entries)])


# ---- both sides ----------------------------------------------------------------------------------


def test_transaction_record_is_equal_in_lua_and_python(rng: random.Random) -> None:
    tx = module("transactions/tx")
    for _ in range(200):
        record = TransactionRecord(number(rng), number(rng), rng.randrange(1001), word(rng), number(rng))
        text = transaction_text(record)
        numbers = map(str, (record.deadline_ms, record.fence, record.operations))
        assert tx.format(*numbers, record.session, str(record.since_ms)) == text
        assert list(tx.parse(text)) == text.split(" ")
        assert TransactionRecord.parse(text) == record


def test_transaction_operation_is_equal_in_lua_and_python(rng: random.Random) -> None:
    tx = module("transactions/tx")
    assert set(KINDS) == {tx.sent, tx.received, tx.rejected, tx.moved}
    for _ in range(400):
        kind = rng.choice(KINDS)
        target = word(rng) if kind == "M" else ""
        reason = rng.choice(("", "late", " two  words\n")) if kind == "X" else ""
        record = OperationRecord(kind, word(rng), word(rng, HEX, 16), target, reason)
        text = operation_text(record)
        end = " " + target if target else "  " + reason if reason else ""
        assert tx.format_operation(kind, record.queue) + record.lookup_id + end == text
        assert list(tx.parse_operation(text)) == [kind, record.queue, record.lookup_id]
        assert (tx.target(text), tx.reason(text) or "") == (target, reason)
        assert OperationRecord.parse(text) == record
        assert tx.parse(text) is None
        assert TransactionRecord.parse(text) is None


def test_claim_is_equal_in_lua_and_python(rng: random.Random) -> None:
    lua = module("claims/claims")
    for _ in range(200):
        committed, sequence, pages, wanted, count, size = (number(rng) for _ in range(6))
        sealed, since, draining = rng.randrange(3), number(rng), rng.choice((0, number(rng)))
        claim = Claim(word(rng), committed, sequence, pages, wanted, count, size, sealed, since, draining)
        text = claim_text(claim)
        parsed = lua.parse("owner", text)
        assert lua.format(parsed) == text
        told = (parsed.lineage, parsed.committed, parsed.seq, parsed.number, parsed.wanted, parsed.count)
        words = [f"{item:.0f}" if isinstance(item, float) else str(item) for item in told]
        assert words == text.split(" ")[:6]
        assert (parsed.sealed, parsed.draining or "0") == (str(claim.sealed), str(claim.draining))
        assert Claim.parse(text) == claim


def test_page_lists_are_equal_in_lua_and_python(rng: random.Random) -> None:
    lua = module("claims/claim_pages")
    for count in range(20):
        lists = []
        for _ in range(count):
            pages, first, upto, packed, loose, step, sequence = (rng.randrange(10**6) for _ in range(7))
            lists.append(PageList(pages, first, upto, packed, loose, step, word(rng), sequence))
        text = "".join(map(page_list_text, lists))
        parsed = lua.parse_lists(text)
        assert "".join(lua.format_list(parsed[n + 1]) for n in range(count)) == text
        assert [(parsed[n + 1]["from"], parsed[n + 1].upto) for n in range(count)] == [
            (each.first, each.upto) for each in lists
        ]
        assert PageList.parse_all(text) == lists


def test_sinks_and_stages_are_read_as_they_are_written(rng: random.Random) -> None:
    lua = module("claims/sinks")
    assert lua.none == NONE
    assert SinkRecord.parse(lua.new) == SinkRecord(NONE, -1, None, 0, ())
    for _ in range(200):
        batch, stages = rng.choice((None, number(rng))), tuple(word(rng) for _ in range(rng.randrange(4)))
        sink = SinkRecord(
            rng.choice((NONE, word(rng))), rng.choice((-1, number(rng))), batch, number(rng), stages
        )
        parts = {"identity": sink.identity, "committed": sink.committed, "since": str(sink.since_ms)}
        parts |= {"publishing": NONE if batch is None else str(batch), "manifest": ",".join(stages)}
        text = lua.format(parts)
        assert SinkRecord.parse(text) == sink
        assert lua.format(lua.parse(text)) == text
        stage = StageRecord(word(rng), number(rng), number(rng), number(rng))
        text = lua.format_stage(stage._asdict() | {"special": rng.choice("01")})
        assert StageRecord.parse(text) == stage
        assert lua.format_stage(lua.parse_stage(text)) == text


def test_members_of_one_score_are_ordered_by_their_bytes(rng: random.Random) -> None:
    lua = module("admin/ordered", encoding=None)
    for _ in range(400):
        one, other = (word(rng, "aB-é_z", rng.randrange(1, 6)).encode() for _ in range(2))
        assert lua[b"is_behind"](one, other) == (one > other)


def test_history_is_equal_in_lua_and_python(rng: random.Random) -> None:
    lua = module("core/statistics")
    names = [*lua.names.values()]
    assert names == [each.name for each in fields(Counters)]

    def counters() -> tuple[Counters, Any]:
        made = Counters(*(rng.choice((0, number(rng))) for _ in names))
        return made, lua.parse(history_text(History(0, made)))[1]

    for _ in range(200):
        items = []
        for _ in range(rng.randrange(4)):
            (before, lua_before), (after, lua_after) = counters(), counters()
            age = rng.choice((None, number(rng)))
            if rng.random() < 0.2:
                after, lua_after = before, lua_before
            items.append(Item(after.since(before), age))
            assert lua.item(lua_after, lua_before, age) == item_text(items[-1])
        before, lua_before = counters()
        history = History(number(rng), before, items)
        text = history_text(history)
        ends = text.rpartition(" ")[2]
        assert lua.format(history.bucket, lua_before, ends) == text
        bucket, found, rest = lua.parse(text)
        assert (int(bucket), Counters(*found.values()), rest) == (history.bucket, before, ends)
        assert lua.last(ends, 2) == "".join(map(item_text, items[-2:]))
        assert History.parse(text) == history


def test_subscription_is_equal_in_lua_and_python(rng: random.Random) -> None:
    lua = module("features/subscription", encoding=None)
    for _ in range(200):
        selector, program = rng.choice(("", "größe > 1", word(rng))), rng.choice((b"", b"c=p1:a\0:"))
        text = format_subscription(selector, program)
        assert tuple(lua[b"parse"](text)) == (selector.encode(), program)
        assert parse_subscription(text) == (selector, program)


def test_trail_is_equal_in_lua_and_python(rng: random.Random) -> None:
    lua = module("features/trail_store")
    for _ in range(200):
        count, omitted = rng.randrange(1, 40), rng.randrange(10**6)
        message_id = rng.choice(("", word(rng, size=100)))
        made = TrailRecord(number(rng), omitted, tuple(entry(rng) for _ in range(count)), message_id)
        text = trail_text(made)
        assert TrailRecord.parse(text) == made
        first, _, _ = text.partition("\n")
        end, omitted_, *rest = first.split(" ")
        assert list(lua.parse(text)) == [end, omitted_, *(rest or [""]), text[len(first) :]]
        added = entry(rng)
        by = f"{added.session} {added.client}"
        told = lua.format_entry(
            str(added.ms), added.event, added.queue, by, added.target, added.lookup_id, added.detail
        )
        assert told == entry_text(added)
        longer = TrailRecord.parse(lua.append(text, told))
        assert longer is not None
        dropped = longer.omitted - made.omitted
        assert longer.message_id == message_id
        assert longer.entries == (made.entries[0], *made.entries[dropped + 1 :], added)
        assert len(longer.entries) <= 32
        assert len("\n".join(["", *map(entry_text, longer.entries)])) <= 4096


def entry(rng: random.Random) -> EntryRecord:
    names = ("-", word(rng), word(rng, size=100))
    detail = rng.choice(("", "late", " two  words ", word(rng, size=200)))
    lookup_id = rng.choice(("-", word(rng, HEX, 16)))
    client, target = rng.choice(names), rng.choice(names)
    return EntryRecord(number(rng), "sent", word(rng), rng.choice("-7"), client, target, lookup_id, detail)


def test_state_is_equal_in_lua_and_python(rng: random.Random) -> None:
    lua = module("core/message_state")
    for _ in range(200):
        state = lua.new(rng.randrange(10**9))
        state.deliveries, state.uncounted = rng.randrange(10**6), rng.choice((0, rng.randrange(10**6)))
        letter, flag = rng.choice("LRSMC"), rng.choice(("", "V", "N", "P"))
        state.kind, state.owner, state.fence = letter + flag, word(rng), str(number(rng))
        text = lua.format(state)
        record = Record(0, b"", None, False, None, text, None, None, False)
        assert state_of(record) == State(int(state.size), letter, flag == "V", state.owner)
        assert kind_of(text.encode()) == letter
        assert lua.format(lua.parse(text)) == text
        lua.free(state)
        assert unlocked(text) == lua.format(state)


def test_retry_policy_is_equal_in_lua_and_python(rng: random.Random) -> None:
    lua = module("features/retry_policy")
    for final in ("poison", "dead_letter", "reject", "drop"):
        made = RetryPolicy(
            immediate=rng.randrange(9), cycles=rng.randrange(9), delay=rng.randrange(1, 9), max_delay=100.5,
            factor=rng.choice((1, 2.5)), jitter=rng.choice((0, 0.25)), isolate=rng.random() < 0.5, final=final,
            dead_letter_queue="größe;x" if final == "dead_letter" else None,
        )  # fmt: skip
        text = format_policy(made)
        assert parse_policy(text) == made
        assert POLICY.fullmatch(text)
        told = lua.parse(text)
        assert (told.attempts_per_round, told.rounds) == (made.immediate + 1, made.cycles + 1)
        assert (told.delay, told.most, told.final) == (made.delay * 1000, 100_500, final)
        assert (told.factor, told.jitter, told.isolate) == (made.factor, made.jitter, made.isolate)
        assert told.dead_letter_queue == (made.dead_letter_queue and keys.encode(made.dead_letter_queue))


def test_log_of_a_failed_attempt_says_what_the_retry_policy_decides(rng: random.Random) -> None:
    others = """
    queue = { notes = function(q) return q end, home = function(q) return q end }
    record = { is_expired = function() return false end }
    release = { verdicts = { returned = 1, hopeless = 2 } }
    context = { now = 0 }
    """
    runtime = lupa.LuaRuntime()
    source = (scripts.root() / "features/retry_policy.lua").read_text()
    lua, table = runtime.execute(f"{others}\n{source}\nreturn retry_policy"), runtime.table_from
    for _ in range(1000):
        policy = RetryPolicy(
            immediate=rng.randrange(3), cycles=rng.randrange(6), delay=rng.choice((0, 0.5, 3)),
            max_delay=rng.choice((10, 100)), factor=rng.choice((1, 2.5)), jitter=0,
            final=rng.choice(("reject", "drop")),
        )  # fmt: skip
        made = rng.randrange(1, 20)
        q = table({"retry": lua.parse(format_policy(policy))})
        state = table({"deliveries": made, "uncounted": 0})
        entry = table({"id": "0" * 16, "rec": "", "state": state})
        fate = lua.decide(q, entry)
        consumer: Any = SimpleNamespace(policy_of=lambda _, policy=policy: policy)
        message: Any = SimpleNamespace(queue="q", attempts=made)
        said = attempt(consumer, message)
        if fate == "retry":  # the log has six digits
            seconds = float(said.removesuffix(" s").rpartition(": the next try is in ")[2])
            assert seconds == pytest.approx(lua.rest(q, entry, fate) / 1000, abs=0.001)
        else:
            wanted = {
                "again": "the next try is at once",
                "reject": "it is rejected",
                "drop": "it is deleted",
            }[fate]
            assert said.endswith(": " + wanted)


@pytest.mark.parametrize("text", ["", "x", "1 2 3", "S q 0", "R q 000000000000000g"])
def test_invalid_text_is_refused_or_read_as_none(text: str) -> None:
    assert TransactionRecord.parse(text) is None
    assert OperationRecord.parse(text) is None
    assert TrailRecord.parse(text) is None
    assert EntryRecord.parse(text) is None
    with pytest.raises(ValueError, match="is not a valid subscription"):
        parse_subscription(text.encode())
    with pytest.raises(ValueError, match="is not a valid history"):
        History.parse(text)
    with pytest.raises(ValueError, match="is not a valid claim"):
        Claim.parse(text)
    if text:
        with pytest.raises(ValueError, match="is not a valid list of pages"):
            PageList.parse_all(text)


def test_trash_entry_has_its_end_and_its_subqueue(rng: random.Random) -> None:
    lua = module("features/trash")
    for _ in range(200):
        ends, subqueue = number(rng), rng.choice((None, word(rng)))
        text = lua.format(ends, subqueue)
        assert text == f"{ends}" + (f" {subqueue}" if subqueue else "")
        assert lua.parse(text) == (str(ends), subqueue)


def test_constants_of_the_stored_data_are_equal_in_lua_and_python() -> None:
    assert module("core/manager_config").schema == keys.SCHEMA
    assert module("core/queue").claimed == NEVER
    assert module("features/dedup").never == HELD


def test_parts_of_a_record_are_equal_in_lua_and_python() -> None:
    record = module("core/record")
    assert (record.flag_at, record.head_at) == (record_parts.FLAG_AT + 1, record_parts.HEAD_AT + 1)
    bits = {
        name.lower(): getattr(record_parts, name) for name in ("SPECIAL", "FIRST", "LAST", "LARGE", "NAMED")
    }
    assert dict(record.bits) == bits
    digits = record_parts.FLAG_DIGITS
    assert [record.sum_of_bits(digit) for digit in digits] == [*range(32)]
    free = dict(record.free)
    assert {flag for flag, kind in free.items() if kind is True} == record_parts.PLAIN_FLAGS
    assert {flag for flag, kind in free.items() if kind == "named"} == record_parts.NAMED_FLAGS
    large = {digit for digit in digits if record.has_large_body(f"1764000000000{digit:c}\0")}
    assert large == record_parts.LARGE_FLAGS
    special = {digit for digit in digits if record.is_special(f"1764000000000{digit:c}\0")}
    assert special - record_parts.NAMED_FLAGS == record_parts.SPECIAL_FLAGS


def test_letters_of_fields_are_equal_in_lua_and_python() -> None:
    renamed = {
        "original_arrived_ms": "_original_arrived_ms",
        "sent_ms_before": "sent_seconds_ago",
    }
    for name, mark in module("core/record").fields.items():
        assert record_parts.LETTERS[renamed.get(name, name)] == mark[1], name


# Times that senders give, in seconds: none, the shortest, and far in the future.
LIVES, AGES = (None, 0.0, 0.001, 60.0, 1e9, 1e12), (0.0, 0.002, 3600.0, 1e9)


def expiring(rng: random.Random) -> Iterator[tuple[bytes, int | None]]:
    """Records of messages with both time limits, and when they expire, in ms."""
    now = int(time.time() * 1000)
    for life, age, delay, limit in itertools.product(LIVES, AGES, (0.0, 5.0), (None, 1e9)):
        out = Outgoing(
            body=b"\x03e9",
            time_to_be_received=life,
            time_to_reach_queue=limit,
            sent_seconds_ago=age,
            delay=delay,
            correlation_id=rng.choice(("", "e5")),
            properties=rng.choice(({}, {"e": "\x03e7"})),
        )
        stored, _ = codec.encode(out)
        expires = None if life is None else now - round(age * 1000) + round(life * 1000)
        yield str(now).encode() + stored[1:], expires  # without the digit of the priority


def test_time_at_which_a_message_expires_is_equal_in_lua_and_python(rng: random.Random) -> None:
    record = module("core/record", encoding=None)
    for stored, expires in expiring(rng):
        assert ((record.is_special(stored) and record.expires(stored)) or None) == expires
        message = codec.decode("q", "", b"0400000000000001", b"", stored)
        assert message.expires_at == (None if expires is None else time_at(expires))


def test_views_of_selectors_are_equal_in_lua_and_python() -> None:
    assert {*module("selector/selector_field").views} == {*View}


def test_states_of_claims_are_equal_in_lua_and_python() -> None:
    lua = module("claims/claims")
    assert [lua.filling, lua.complete, lua.released] == [f"{each}" for each in (FILLING, COMPLETE, RELEASED)]


def test_types_of_keys_are_equal_in_lua_and_python() -> None:
    read = {name: kind for name, kind in TYPES.items() if name not in ("schedules", "messages", "workers")}
    assert dict(module("admin/audit").types) == read


def test_report_of_a_worker_has_the_names_that_are_removed_with_it() -> None:
    worker = Worker()
    worker.consumer("q")(lambda _: None)
    failed = FailedAttempts(
        worker.consumers[0], "host:1", Shutdown(), lambda *_: True, sealed=False, raise_errors=False
    )
    told = failed.return_instruction(ValueError("wrong"), [])
    names = {name.removeprefix(giveback.REPORT) for name in re.findall(r"\x01(\w+)\x02", told)}
    assert names == {"worker", "handler", "error", "traceback"}
    assert names < {*module("features/failure").names.values()}
