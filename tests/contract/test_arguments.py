"""The client and the scripts agree about arguments, words of replies and letters that both sides have."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path
from typing import Any, get_args

import pytest

from mqredis import keys, scripts
from mqredis.codec import schedules
from mqredis.commands import arguments, claims, stages, transactions, workers
from mqredis.commands import schedules as schedule_commands
from mqredis.console import sentences
from mqredis.keys import KeySet
from mqredis.models.inspection import MessageState
from mqredis.models.text import escape
from mqredis.operations import bulk
from mqredis.operations.doctor import snapshot
from mqredis.operations.durability import changes
from mqredis.selector import encode, like
from mqredis.selector.names import FIELDS
from mqredis.steps import Call
from tests.contract.test_stored_texts import module
from tools.script_heads import head

ROOT = Path(__file__).parents[2]
OPERATIONS = ROOT / "mqredis" / "operations"
IN_TRANSACTIONS = ("send", "publish", "receive", "lookup", "move")


def source(name: str) -> str:
    return (ROOT / "lua" / f"{name}.lua").read_text()


def names(script: str) -> list[str]:
    """The arguments of a script behind its token, as its header names them."""
    return [name.rstrip("+?") for name, _ in head(script).argv]


def calling(script: str, **given: str) -> Call[Any]:
    """A call whose arguments are these by the names of the header, "x" for all others."""
    assert given.keys() <= set(names(script))
    return Call(script, KeySet(()), [given.get(name, "x") for name in names(script)], lambda *_: None)


def returned(script: str, status: str) -> str:
    """What the header says of the reply with this status, without what stands in parentheses."""
    text = re.search(rf"^-- RETURNS {status}\b(.*(?:\n--   .*)*)", source(script), re.MULTILINE)
    assert text
    return re.sub(r"\([^)]*\)", "", text[1].replace("\n--  ", ""))


def makers(module_name: str, table: str) -> set[str]:
    """The keys of a table of functions that has one in each line."""
    rows = re.search(rf"{table} = \{{\n(.*?)\n\}}", source(module_name), re.DOTALL)
    assert rows
    return {
        quoted or plain for quoted, plain in re.findall(r'^  (?:\["(.)"\]|(\w+)) = ', rows[1], re.MULTILINE)
    }


# ---- places of arguments -------------------------------------------------------------------------


@pytest.mark.parametrize("script", IN_TRANSACTIONS)
def test_client_finds_the_transaction_of_a_call_and_its_fence(script: str) -> None:
    owner = "owner" if "owner" in names(script) else "transaction"
    mode = {"mode": "tx"} if "mode" in names(script) else {}
    doubt = transactions.doubt("1.0:1", calling(script, **{owner: "t"}, **mode))
    assert doubt is not None
    assert doubt.transaction == "t"
    assert returned(script, "OK").split(",")[doubt.fence_at].strip().startswith("fence")


def test_client_knows_all_scripts_that_may_begin_a_transaction() -> None:
    opening = {name for name in scripts.names() if re.search(r"\btx\.(open|enter)\(", source(name))}
    assert opening - {"begin", "reject", "renew"} == set(IN_TRANSACTIONS) == arguments.FENCES.keys()


def test_client_reads_the_mode_of_a_read_and_its_settlements() -> None:
    for script in ("receive", "lookup"):
        assert arguments.mode_of(calling(script, mode="lock")) == "lock"
    assert arguments.brings_settlements(calling("receive", settlement="c"))
    assert not arguments.brings_settlements(calling("receive", settlement=""))
    peek = transactions.usage(calling("lookup", mode="peek", ids="000000000000002a"), "q")
    assert "message 0x000000000000002a of" in str(peek)


@pytest.mark.parametrize(
    "script, permanent, other",
    [
        ("send", {"transaction": ""}, {"transaction": "t"}),
        ("publish", {"transaction": ""}, {"transaction": "t"}),
        ("move", {"transaction": ""}, {"transaction": "t"}),
        ("receive", {"mode": "take", "settlement": ""}, {"mode": "lock", "settlement": ""}),
        ("receive", {"mode": "lock", "settlement": "c"}, {"mode": "tx", "settlement": ""}),
        ("lookup", {"mode": "take"}, {"mode": "peek"}),
        ("settle", {"settlement": "c"}, {"settlement": "b"}),
        ("commit", {"outcome": "commit"}, {"outcome": "abort"}),
    ],
)
def test_durability_reads_the_arguments_that_headers_name(
    script: str, permanent: dict[str, str], other: dict[str, str]
) -> None:
    assert changes.permanent(calling(script, **permanent))
    assert not changes.permanent(calling(script, **other))


# ---- words of replies ----------------------------------------------------------------------------


def words(script: str) -> set[str]:
    """The words that may follow LOCK_LOST."""
    found = returned(script, "LOCK_LOST").removeprefix(" why:").partition(";")[0].partition(":")[0]
    return set(re.findall(r"[a-z]+", found))


def test_client_explains_each_reason_for_which_a_claim_is_lost() -> None:
    said = [
        words(name) for name in scripts.names() if name.startswith("claim") and "LOCK_LOST" in source(name)
    ]
    assert set().union(*said) == claims.WHY.keys()


def test_client_explains_each_reason_for_which_a_publication_is_refused() -> None:
    assert words("stage") | words("stage_publish") == stages._WHY.keys()


def test_client_knows_the_states_that_a_list_of_messages_shows() -> None:
    listed = re.search(r"state \(([a-z, ]+)\)", source("message_list"))
    assert listed
    assert tuple(listed[1].split(", ")) == get_args(MessageState)


# ---- letters and texts ---------------------------------------------------------------------------


def test_progress_of_an_action_is_what_the_client_takes_back() -> None:
    lua = module("admin/bulk_progress")
    numbers = {"changed": 256, "locked": 0, "missing": 0, "newest": "00000000001a2b", "due": 0}
    for log_entry, phase, place in (
        ("", "a", ""),
        ("0" * 16, "a", "0" * 16),
        ("", "d", "1764000000000d" + "0" * 16),
    ):
        text = lua.format(numbers | {"log_entry": log_entry, "phase": phase, "place": place})
        assert bulk._CURSOR.fullmatch(text), text
        assert lua.format(lua.parse(text)) == text


def test_client_asks_for_actions_that_the_script_has() -> None:
    asked = set(re.findall(r'\bAction\("(\w+)"', (OPERATIONS / "bulk.py").read_text())) | {"count"}
    assert asked == makers("admin/bulk_actions", r"bulk_actions\.all")
    assert asked == set(dict(head("bulk").argv)["action"].split(" | "))


def test_audit_knows_the_types_of_all_keys() -> None:
    assert set(module("admin/audit").types) == {*keys.MANAGER_PARTS, *keys.QUEUE_PARTS}


def test_doctor_takes_each_row_of_the_audit_with_all_its_elements() -> None:
    head = source("admin/audit").partition("local audit")[0]
    listed = re.findall(r"^--   ([A-Z]) ((?:[a-z_]+ )+?)(?: |$)", head.replace("\n", " \n"), re.MULTILINE)
    sizes = {letter: len(elements.split()) for letter, elements in listed}
    taken = {letter: len(signature(store).parameters) - 2 for letter, store in snapshot._ROWS.items()}
    assert sizes == taken
    assert set(re.findall(r'audit\.row\(reply, "(\w)"', source("admin/audit"))) <= taken.keys()


def test_doctor_asks_for_edits_that_the_script_carries_out() -> None:
    listed = re.search(r"what \(([a-z, ]+)\)", source("repair"))
    assert listed
    known = set(listed[1].split(", "))
    assert set(re.findall(r'what == "(\w+)"', source("repair"))) | {"count"} == known
    asked = set()
    for path in (OPERATIONS / "doctor").rglob("*.py"):
        for first in re.findall(r"\bEdit\(([^,()]*),", path.read_text()):
            asked |= set(re.findall(r'"(\w+)"', first)) - {"STATES", "QUEUE_COUNTS"}
    assert asked <= known
    assert {"hset", "zadd", "count"} <= asked


def test_schedules_have_one_form_and_one_limit() -> None:
    lua = module("admin/schedules")
    assert lua.most == schedule_commands.MOST
    pattern = re.search(r'string\.find\(message, "\^(.*?)"\)', source("admin/schedules"))
    assert pattern
    assert (
        schedules.MESSAGE.pattern.decode()
        == pattern[1].replace("[^%z]", r"[^\x00]").replace("%z", r"\x00") + ".*"
    )


def test_workers_are_paused_under_the_letters_that_the_scripts_list() -> None:
    assert set(module("admin/workers").pauses) == workers.KINDS.keys()


def test_calls_of_pipelines_are_as_large_as_the_scripts_expect() -> None:
    """Reads the text of Spark's modules, which cannot be imported without Spark."""
    most = module("claims/claims").page_without_records
    assert f"ONE_CALL = {most:_}\n" in (ROOT / "mqredis/spark/threads.py").read_text()
    listed = re.search(r"at most (\d+)\n", source("stage"))
    assert listed
    assert f"CALL_MESSAGES = {int(listed[1]):_}\n" in (ROOT / "mqredis/spark/staging.py").read_text()
    read = re.search(r"up to ([\d,]+), since unpack has a limit", source("claim_read"))
    assert read
    assert (
        f"MAX_FETCH_SIZE = {int(read[1].replace(',', '')):_}\n"
        in (ROOT / "mqredis/spark/options.py").read_text()
    )


def test_claims_have_the_states_that_the_client_names() -> None:
    lua = module("claims/claims")
    named = [lua.filling, lua.complete, lua.released]
    assert [claims._STATES[int(sealed)] for sealed in named] == ["filling", "complete", "released"]


def test_console_has_a_sentence_for_each_action() -> None:
    """An entry of the log has the name that an operation gives to ``actions.entry``."""
    package = ROOT / "mqredis"
    text = "".join((package / path).read_text() for path in (
        "asyncio/operator.py", "operations/bulk.py", "operations/force.py", "operations/schedules.py",
        "operations/workers.py",
    ))  # fmt: skip
    titles = re.findall(r'choice, "(\w+)"\)', text)
    titles += re.findall(r'(?:entry|_act|_tell)\((?:context, )?operator, "(\w+)"', text)
    titles += re.findall(r'_order\(context, operator, worker, "(\w+)"', text)
    assert len(titles) > 10
    actions = set(re.findall(r'Action\("(\w+)"', text)) - {"count", "due"}  # not logged; logged by a title
    assert {*actions, *titles} <= sentences._ON_MESSAGES.keys() | sentences._OTHERS.keys()


# ---- selectors -----------------------------------------------------------------------------------


def test_selectors_are_written_with_the_letters_that_the_scripts_read() -> None:
    written = Path(encode.__file__).read_text()
    conditions = makers("selector/selector_condition", r"selector_condition\.makers")
    operands = makers("selector/selector_operand", r"selector_operand\.makers")
    single = set(re.findall(r'b"([^"\\])"', written))
    operators = {letter.decode() for letter in encode._OPERATORS.values()}
    assert operators == makers("selector/selector_value", r"selector_value\.tests")
    assert operands - {"+", "-"} <= single
    assert conditions <= single
    assert single <= conditions | operands | operators | set("sxidtfe")


def test_header_fields_are_read_through_views_that_the_scripts_have() -> None:
    views = makers("selector/selector_field", r"selector_field\.views")
    assert {field.view for field in FIELDS.values()} == views


def test_patterns_have_one_underscore_and_one_budget() -> None:
    lua: Any = module("selector/selector_like", encoding=None)
    assert lua[b"any"] == encode._ANY
    assert lua[b"factor"] == like.FACTOR


def test_texts_are_unescaped_as_the_client_escapes_them() -> None:
    lua: Any = module("selector/selector_value", encoding=None)
    for text in ("", "EU", "a\0b", "\1\2\3\4\4", "\4A", "größe\3"):
        assert lua[b"unescape"](escape(text).encode()) == text.encode()
