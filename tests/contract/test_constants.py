"""Letters, numbers and names that the scripts and the client both have are the same on both sides."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from mqredis import keys, scripts
from mqredis.codec import history, states
from mqredis.codec.locks import in_header
from mqredis.commands import filters, read, settlement, waiting
from mqredis.drivers.waiting import handoff, mode, table
from mqredis.models import Access, Acknowledge, fields
from mqredis.models.enums import MessageClass
from mqredis.models.inspection import TrailEvent
from mqredis.models.lookup_ids import generated_id
from mqredis.models.properties import PropertyValue, write_properties
from mqredis.operations import open_queue
from mqredis.operations.doctor.checks import keys as key_checks
from mqredis.operations.doctor.checks import manager, policies, queues, sessions, trails
from mqredis.operations.doctor.snapshot import _HEADER
from tests.contract.test_stored_texts import module, word

lupa = pytest.importorskip("lupa.lua51")
LUA = Path(__file__).parents[2] / "lua"


def code_of(path: Path) -> str:
    return re.sub("--.*", "", path.read_text())


def all_code() -> str:
    return "".join(map(code_of, LUA.rglob("*.lua")))


def pairs(table: Any) -> dict[str, Any]:
    return dict(table.items())


def letters(table: Any) -> set[str]:
    return set(pairs(table).values())


def with_redis(path: str) -> tuple[Any, list[str]]:
    """A module whose HMGET finds nothing, and the fields that it asks for."""
    runtime = lupa.LuaRuntime()
    asked: list[str] = []

    def call(_name: str, _key: str, *fields: str) -> Any:
        asked.extend(fields)
        return runtime.table_from([False] * len(fields))

    runtime.globals().redis = runtime.table_from({"call": call})
    runtime.globals().KEYS = runtime.table_from(["meta"])
    return runtime.execute(f"{(LUA / path).read_text()}\nreturn {Path(path).stem}"), asked


def test_keys_stand_at_the_same_places() -> None:
    queue = module("core/queue")
    assert (queue.parts, queue.message_keys) == (len(keys.QUEUE_PARTS), keys.MESSAGE_SCRIPT_PARTS)
    assert queue.admin_keys == len(keys.MANAGER_PARTS)
    assert queue.log == keys.encode(keys.ACTIONS)
    assert module("core/handle").key == keys.MANAGER_PARTS.index("handles") + 1
    assert module("core/session").idle == keys.MANAGER_PARTS.index("idle") + 1
    listed = re.findall(
        r"^--   (\w)  \w+ +(?:hash|zset) ", (LUA / "core/queue.lua").read_text(), re.MULTILINE
    )
    assert tuple(listed) == keys.QUEUE_PARTS


def test_configs_hold_the_same_fields_in_the_same_order() -> None:
    config, asked = with_redis("core/manager_config.lua")
    config.read()
    assert tuple(asked) == queues.META_CONFIG
    assert set(asked) | set(keys.META_COUNTS) == set(manager.PATTERNS)
    config, asked = with_redis("core/queue_config.lua")
    config.read("q")
    assert tuple(asked) == queues.QUEUE_CONFIG


def test_header_of_a_queue_and_counters_of_the_manager_have_the_same_parts() -> None:
    header = "1|t|4194304||| 1 2 3 4 1 6 4711,182,1764000030000,12.0,040000000000002a 4712"
    found = _HEADER.fullmatch(header)
    assert found is not None
    config, *counts, locks = module("core/queue").parse_header(header)
    assert (config, counts, locks) == (found[1], found[2].split(" "), found[3])
    assert len(counts) == len(keys.QUEUE_COUNTS)
    context = module("core/context")
    context.parse_counters("1 2 3 4 5")
    told = {name: getattr(context, name) for name in keys.META_COUNTS if name != "time"} | {
        "time": context.latest
    }
    assert [f"{told[name]}" for name in keys.META_COUNTS] == ["1", "2", "3", "4", "5"]


def test_names_of_queues_are_encoded_alike() -> None:
    lua = module("features/other_queues", encoding=None)
    for name in ("orders", "orders;retry", "system$;journal", "Größe 1", "a%2F/b-._~"):
        assert lua[b"encode"](name.encode()) == keys.encode(name).encode()
        assert lua[b"decode"](keys.encode(name).encode()) == name.encode()
        home, _, subqueue = name.partition(";")
        found = module("core/queue").split_name(keys.encode(name))
        assert (found[0], found[1] or "") == (keys.encode(home), keys.encode(subqueue))
        if subqueue:
            assert module("core/queue").join_name(*found) == keys.encode(name)
    system = module("features/other_queues").system
    assert system.journal == keys.encode(keys.SYSTEM_JOURNAL)
    assert system.dead_letter == keys.encode(keys.DEAD_LETTER)
    assert system.transactional_dead_letter == keys.encode(keys.TRANSACTIONAL_DEAD_LETTER)


def test_generated_message_ids_and_wake_channels() -> None:
    assert module("core/record").made_message_id("0400000000000001") == "s" + generated_id("0400000000000001")
    before = 'KEYS = { "mq:{x}:meta" }\n' + (scripts.root() / "core/context.lua").read_text()
    notify, known = module("waiting/notify", before), keys.ManagerKeys("x")
    assert notify.channel("12.3", "5") == (known.wake_key("12.3"), known.channel("12.3", 5))


def test_kinds_of_states_and_their_letters() -> None:
    lua = module("core/message_state")
    assert (lua.by_reader, lua.claimed) == (states.BY_READER, states.CLAIMED)
    assert (lua.received, lua.sent, lua.moved) == states.IN_TRANSACTION
    for name in ("plain_reader", "plain_send", "plain_claim"):
        assert lua[name][1:] == lua.plain
    assert lua.purged_claim == lua.claimed + lua.purged
    assert (lua.visible, lua.plain, lua.purged) == (states.VISIBLE, states.PLAIN, states.PURGED)
    assert lua.new(1).kind == states.NOT_LOCKED
    assert lua.locked_once == states.LOCKED_ONCE.decode()


def test_letters_of_timers() -> None:
    timers = pairs(module("core/timers").letters)
    assert len(set(timers.values())) == len(timers)
    policy = {timers[name].encode() for name in ("rest", "rest_isolated", "isolated", "poison")}
    assert policy == policies._RESTS
    assert timers["dedup_key"] == "k"  # a literal of the doctor


def test_flags_of_messages_in_a_group() -> None:
    flags = module("matching/index").flags
    assert (flags.last_in_group, flags.segment, flags.last_segment) == fields.GROUP_FLAGS


def test_letters_of_settlements_and_cursors() -> None:
    verdicts = module("core/release").verdicts
    assert (verdicts.failed, verdicts.returned, verdicts.hopeless) == (
        settlement.ABORT,
        settlement.RETURN,
        settlement.FAIL,
    )
    lost = module("core/settle").lost
    assert (lost.available, lost.locked, lost.gone) == (
        settlement.AVAILABLE,
        settlement.LOCKED,
        settlement.GONE,
    )
    cursors = module("core/seek").cursors
    assert (cursors.unread, cursors.read, cursors.after) == (read.UNREAD, read.READ, read.BEHIND)


def test_texts_of_waiting_readers() -> None:
    rng, lua = random.Random(1), module("waiting/waiter_text")
    assert lua.peeks == waiting.PEEKS
    assert set(pairs(lua.handed)) == set(sessions.HANDED)
    for _ in range(200):
        slot, tag = f"{rng.randrange(1000)}.{rng.randrange(9)}", rng.choice(("-", word(rng)))
        kind, notified = rng.choice("DCP"), rng.choice([*mode.LETTERS.values()])
        lease, wanted = rng.choice(("", ",30000")), rng.choice(("", " \x03csabc\0"))
        member = f"{slot} {kind} {notified}{rng.randrange(16)} {tag}{lease}{wanted}"
        found = sessions._WAITER.fullmatch(member)
        assert found is not None
        assert found[1] == slot.partition(".")[0]
        assert list(lua.parse(member)) == [slot, kind, member.split(" ")[2]]
        assert (lua.tag(member), lua.filter(member) or "") == (tag, wanted[1:])
        assert lua.is_taking(member) == (kind != waiting.PEEKS)
    assert not sessions._WAITER.fullmatch("12.3 X k0 -")
    scores = module("waiting/match_waiters")  # numbers in the check `waiters` of the doctor
    assert (scores.indexed, scores.unindexed) == (-(1 << 50), -(1 << 51))


def test_registrations_and_tickets_of_waiting_readers() -> None:
    lua = module("waiting/waiter_text")
    plain = waiting.register_as(waiting.PEEKS, waiting.PUBLISH, 7, "a b")
    assert list(lua.parse(f"12.3 {plain}")) == ["12.3", waiting.PEEKS, f"{waiting.PUBLISH}7"]
    assert lua.tag(f"12.3 {plain}") == "a%20b"
    assert lua.parse_lock(f"12.3 {plain}") is None
    handed = waiting.register_as(waiting.TAKES, waiting.KEYSPACE, 0, lease="30000")
    assert list(lua.parse_lock(f"12.3 {handed}")) == ["12.3", "0", "30000"]
    waiter = waiting.Waiter(handed, "12:34")
    waiter.look_for_the_last_time()
    assert waiter.ticket == "leave:34"
    assert '== "leave"' in code_of(LUA / "waiting/waiters.lua")
    assert f'"{waiting.NO_WAIT}"' in code_of(LUA / "receive.lua")


def test_notifications_of_waiting_readers() -> None:
    text = code_of(LUA / "waiting/notify.lua")
    assert f'"{table.EVENT.decode()}"' in text
    assert f'"{keys.WAKE}"' in text
    (head,) = re.findall(r'string\.format\("(lock [%s ]+)\\n"', code_of(LUA / "waiting/handoff.lua"))
    assert head.startswith(handoff.LOCK.decode())
    words = ("1.2", "3", "incarnation", "4", "5", "6", "040000000000002a", "key")
    stored = b"1764000000000" + b"0\0body"
    found = handoff.Handoff.parse((head % words).encode() + b"\n" + stored)
    assert (found.slot, str(found.sequence), found.incarnation.decode(), found.queue_key) == (
        *words[:3],
        "key",
    )
    status, _, history_, *payload = found.reply()
    assert (status, history_) == (0, b"4")
    answer = read._parse_receive(status, payload)
    assert [*answer.messages] == [(b"040000000000002a", states.LOCKED_ONCE, stored)]
    assert (answer.fence, answer.deadline, answer.now_ms, [*answer.lost]) == ("4", 5, 6, [])


def test_beginnings_of_the_names_of_fields() -> None:
    for word_, path in (
        (keys.LOCK, "core/locks"),
        (keys.TRAIL, "features/trail_store"),
        (keys.CLIENT, "session_open"),
        (keys.CLAIM, "claims/claims"),
        (keys.SUBSCRIPTION, "features/subscription"),
    ):
        assert f'"{word_}' in code_of(LUA / f"{path}.lua"), path


def test_doctor_knows_the_type_of_each_key() -> None:
    hashes = {name.rpartition(":")[2] for name in keys.OPTIONAL} - {keys.SINKS}
    assert set(key_checks.TYPES) == {*keys.MANAGER_PARTS, *keys.QUEUE_PARTS, *hashes}


def test_locks_of_a_header_stand_behind_its_counters() -> None:
    counters = " ".join("1" for _ in keys.QUEUE_COUNTS)
    assert in_header(f"7||9||| {counters} 4711,182,5,12.0,00 4712".encode()) == ([b"00"], [b"lock:4712"])


def test_letters_of_filters() -> None:
    lua = module("matching/filter")
    options = {
        name.lower(): getattr(filters, name)
        for name in (
            "LOGICAL_ORDER", "ALL_MESSAGES", "ALL_SEGMENTS", "COMPLETE_MESSAGE", "WHOLE_GROUP", "UNMARKED", "MARK",
            "UNMARK", "MARK_COOPERATIVE", "UNMARK_COOPERATIVE", "DELIVERY_ORDER",
        )
    }  # fmt: skip
    assert {name: letter for letter, name in lua.option_names.items()} == options
    fields = {name: letter for letter, name in lua.field_names.items()}
    assert {name: fields[name] for name in filters._KEYS} == filters._KEYS
    indexed = pairs(module("matching/index").letters)
    assert {name: indexed[name] for name in filters._KEYS} == filters._KEYS
    made = filters.Filter(
        lookup_id="0", after="0", member=filters.Member("sg", 1, 0), browser="1-1", interval="-", options="U"
    )
    used = set(re.findall("\x03(.)", made.text().decode()))
    assert used - {"f"} <= set(lua.field_names)


def test_letters_of_the_index_are_different_and_marks_are_last() -> None:
    mark, own = module("matching/mark"), module("matching/index").letters
    of_messages = letters(own) | {module("core/message_state").visible_member("")}
    others = [
        module("waiting/match_waiters").index_stem("")[0],
        module("matching/arrivals").stem(1)[0],
        module("features/group_lock").busy_member("", "")[0],
        "h",  # groups that are ready
        mark.own,
        mark.shared,
    ]
    assert len(of_messages | set(others)) == len(pairs(own)) + 1 + len(others)
    assert sorted(of_messages | set(others))[-2:] == [mark.own, mark.shared]
    listed = re.findall(r'"\^\[([a-z]+)\]"', code_of(LUA / "admin/audit.lua"))
    assert {"".join(sorted(of_messages))} == {"".join(sorted(each)) for each in listed}


def test_acknowledgements_and_classes_of_messages() -> None:
    lua = module("features/trace")
    wanted = {
        "reached": Acknowledge.POSITIVE_ARRIVAL, "received": Acknowledge.POSITIVE_RECEIVE,
        "not_reached": Acknowledge.NEGATIVE_ARRIVAL, "not_received": Acknowledge.NEGATIVE_RECEIVE,
        "pass_correlation_id": Acknowledge.PASS_CORRELATION_ID, "pass_message_id": Acknowledge.PASS_MESSAGE_ID,
    }  # fmt: skip
    assert pairs(lua.bits) == wanted
    assert letters(lua["class"]) | letters(lua.positive) <= set(MessageClass)


def test_statistics_and_trails_keep_as_much() -> None:
    assert module("core/queue").bucket == history.BUCKET_MS
    assert module("core/statistics")["items"] == history.KEPT
    assert module("features/trail_store").kept == trails.PLACES


def test_events_of_trails() -> None:
    events = set(get_args(TrailEvent))
    ends = letters(module("features/trail").ends) - {False}
    assert ends <= events
    code = all_code()
    assert {event for event in events if f'"{event}"' not in code} == set()
    written = re.findall(r'\bevent = (?:[^\n"]* )?"(\w+)"', code)
    assert {"poisoned", "resting", "lapsed"} <= set(written) <= events


def test_reasons_of_departures() -> None:
    removal = module("core/removal")
    head = (LUA / "core/removal.lua").read_text().partition("local removal")[0]
    told = set(
        re.findall(r"^--   ([a-z_]+) {2,}[a-z]", head.partition("reason            when")[2], re.MULTILINE)
    )
    used = set(re.findall(r'\bremoval\.(?:delete|plan)\([^\n]*"([a-z_]+)"\)', all_code()))
    assert {"receive", "aborted", "redriven"} <= used <= told
    assert {reason for reason in told if f'"{reason}"' not in all_code()} == set()
    assert set(pairs(removal.counters)) <= told
    assert set(pairs(module("features/trail").ends)) <= told
    refused = set(re.findall('"([a-z_]+)"', code_of(LUA / "features/refusal.lua")))
    assert set(pairs(module("features/trace")["class"])) <= told | refused


def test_handles_that_take_messages() -> None:
    receives = module("core/handle").receives
    assert {access for access in Access if receives(access.value)} == set(open_queue._ALLOWED["receive"])


def test_selectors_know_the_letters_of_property_values() -> None:
    lua = module("selector/selector_value", before="selector_number = { parse = tonumber }")
    values: dict[str, PropertyValue] = {
        "s": "a",
        "i": 7,
        "d": 0.5,
        "t": True,
        "f": False,
        "n": None,
        "x": b"a",
    }
    for letter, value in values.items():
        text = write_properties({"p": value}).partition("\x02")[2]
        assert text[0] == letter
        read = value.hex() if isinstance(value, bytes) else value
        assert (lua.typed(letter, text[1:]) or (None, None))[1] == read


def test_retry_policy_without_one_can_be_read() -> None:
    assert policies.POLICY.fullmatch(module("features/retry_policy").none)
