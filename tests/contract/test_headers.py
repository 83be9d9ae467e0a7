"""The header of a script is a contract: with the commands that call it, its statuses, the keys it touches."""

from __future__ import annotations

import re
from typing import Any

import pytest

import mqredis
from mqredis import Settings, scripts
from mqredis.keys import MANAGER_PARTS, MESSAGE_SCRIPT_PARTS, QUEUE_PARTS
from mqredis.status import Status
from mqredis.steps import Call
from tests.contract.monitor import MANAGER, script_calls
from tests.contract.scenario import everything
from tests.support.backend import Backend
from tests.support.server import RedisServer
from tools.script_heads import Head, head

# Statuses that core/context may return for every script; the headers do not repeat them.
FROM_THE_CONTEXT = {
    "SESSION_EXPIRED",
    "TOKEN_REUSED",
    "MANAGER_NOT_FOUND",
    "SCHEMA_TOO_NEW",
    "SCHEMA_TOO_OLD",
}
# The status that ends a wait is an argument of the call that ends it (cancel.lua, ARGV[5]).
FROM_THE_CALLER = {"OPERATION_CANCELLED"}
# Not returned, but stored as the reply of another call.
FOR_OTHERS = {"resolve": {"OPERATION_CANCELLED"}}
_USED = re.compile(r"\bstatus\.([A-Z_]+)\b")
_REQUIRED = re.compile(r'^--- require (?:lazy )?"([a-z]+/[a-z_]+)"', re.MULTILINE)


def source(name: str) -> str:
    return (scripts.root() / f"{name}.lua").read_text()


def family(name: str, seen: set[str] | None = None) -> set[str]:
    """Names of a module and of everything it requires."""
    seen = set() if seen is None else seen
    if name not in seen:
        seen.add(name)
        for other in _REQUIRED.findall(source(name)):
            family(other, seen)
    return seen


def code(text: str) -> str:
    """The source without comments."""
    return re.sub(r"--.*", "", text)


@pytest.mark.parametrize("name", scripts.names())
def test_header_describes_purpose_keys_arguments_and_returns(name: str) -> None:
    header = head(name)
    assert len(header.about) > 1, "what does it do, and where is it described?"
    assert header.keys in ("message", "admin")
    assert header.returns
    lines = re.findall(r"^-- (QUEUE|ARGV)\[(\d+)([+?]?)\]", source(name), re.MULTILINE)
    for kind, first in (("QUEUE", 1), ("ARGV", 3)):
        rows = [(int(number), sign) for found, number, sign in lines if found == kind]
        assert [number for number, _ in rows] == list(range(first, first + len(rows))), f"{kind}s in order"
        assert "+" not in [sign for _, sign in rows[:-1]], f"only the last {kind} may repeat"


@pytest.mark.parametrize("name", scripts.names())
def test_header_names_the_statuses_that_the_script_returns(name: str) -> None:
    returns = set(head(name).returns)
    own = set(_USED.findall(code(source(name)))) - FROM_THE_CONTEXT - FOR_OTHERS.get(name, set())
    anywhere = {status for part in family(name) for status in _USED.findall(code(source(part)))}
    assert own <= returns | {"CONTINUE"}, "in the script, not in its header"
    assert returns - {"OK", *FROM_THE_CALLER} <= anywhere, "in the header, nowhere in the script"
    assert returns <= Status.__members__.keys()


# What send.lua refuses, and the others that put messages of users into queues do not: its head says why.
_OF_TRANSACTIONS = {"TRANSACTION_SEQUENCE", "TRANSACTION_USAGE", "TRANSACTION_TOO_LARGE"}
NOT_REFUSED = {
    "publish": set[str](),
    "stage_publish": _OF_TRANSACTIONS - {"TRANSACTION_USAGE"} | {"MESSAGE_TOO_LARGE"},
    "schedule_write": _OF_TRANSACTIONS | {"ENQUEUE_TIMED_OUT", "QUEUE_NOT_AVAILABLE"},
}


@pytest.mark.parametrize("name", NOT_REFUSED)
def test_every_way_to_send_refuses_what_a_send_refuses(name: str) -> None:
    refused = set(head("send").returns) - set(head(name).returns)
    assert refused == NOT_REFUSED[name]


@pytest.mark.parametrize("name", scripts.names())
def test_every_script_has_a_command(name: str) -> None:
    text = "".join(path.read_text() for path in (scripts.root().parent / "mqredis").rglob("*.py"))
    assert f'"{name}"' in text


# ---- what is really called -----------------------------------------------------------------------


@pytest.fixture
def calls(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> list[Call[Any]]:
    """Every call of the scenario that calls all scripts."""
    from mqredis.drivers.attempt import Attempt

    seen: list[Call[Any]] = []
    plain = Attempt.__init__

    def record(self: Attempt, core: Any, call: Call[Any], *rest: Any) -> None:
        seen.append(call)
        plain(self, core, call, *rest)

    monkeypatch.setattr(Attempt, "__init__", record)
    raw = backend.client()
    with mqredis.connect(backend.client(), manager="all", settings=Settings(test_clock=True)) as qm:
        everything(qm, raw)
    raw.close()
    return seen


def counted(what: str, number: int, rows: int, repeats: bool) -> str:
    """Describe a wrong number of arguments or keys, where the last may repeat or be missing; else return ""."""
    fine = number >= rows - 1 if repeats else number == rows
    return "" if fine else f"{number} {what}, the header describes {rows}{' or more' if repeats else ''}"


def wrong_with(call: Call[Any], header: Head) -> str:
    own = len(MANAGER_PARTS) if header.keys == "admin" else MESSAGE_SCRIPT_PARTS
    keys = call.keys.keys
    # Workers, schedules, tokens of actions, and sinks with their stages, stand behind the keys of the queues.
    behind = re.compile(r":(workers|schedules|schedules:messages|sinks)$|:(action|stage):")
    keys = tuple(key for key in keys if not behind.search(key))
    names = [key.rpartition(":")[2] for key in keys]
    groups, rest = divmod(len(keys) - own, len(QUEUE_PARTS))
    if rest or tuple(names) != (*MANAGER_PARTS[:own], *QUEUE_PARTS * groups):
        return f"keys {names}"
    queues = counted("queues", groups, len(header.queues), bool(header.queues) and "+" in header.queues[-1])
    if len(call.args) in [n for n, (name, _) in enumerate(header.argv) if name.endswith("?")]:
        return queues
    argv = counted(
        "arguments", len(call.args), len(header.argv), bool(header.argv) and header.argv[-1][0].endswith("+")
    )
    return queues or argv


def test_scenario_calls_every_script(calls: list[Call[Any]]) -> None:
    assert {call.script for call in calls} == {*scripts.names()}


def test_commands_and_headers_agree(calls: list[Call[Any]]) -> None:
    wrong = {(call.script, why) for call in calls if (why := wrong_with(call, head(call.script)))}
    assert not wrong


# ---- keys touched --------------------------------------------------------------------------------

_NO_KEY = {"time", "publish", "pubsub"}
_ALL_KEYS = {"unlink", "del", "exists"}


def touched(words: list[str]) -> list[str]:
    """Keys of a command inside a script."""
    name = words[0].lower()
    if name in _NO_KEY:
        return []
    return words[1:] if name in _ALL_KEYS else words[1:2]


def test_scripts_touch_only_the_keys_they_were_given(redis_server: RedisServer) -> None:
    """A cluster that moves slots, and ACL dry runs, see only declared keys. Wake keys are the one exception."""
    strays: set[tuple[str, str]] = set()
    scripts_seen = 0
    for call, commands in script_calls(redis_server):
        scripts_seen += 1
        declared = set(call[3 : 3 + int(call[2])])
        for words in commands:
            for key in touched(words):
                if key not in declared and not key.startswith(f"mq:{{{MANAGER}}}:wake:"):
                    strays.add((words[0], key))
    assert scripts_seen > 100
    assert not strays
