"""What the benchmark reads out of the calls that callgrind has counted."""

from __future__ import annotations

from bench import commands

DUMP = """\
events: Ir
fn=(1) fcallCommand
12 5
cfn=(2) luaRedisGenericCommand
calls=3 40
13 900
fn=(2)
41 30
cfn=(3) hsetCommand
calls=1 7
42 500
cfn=(4) zaddCommand'2
calls=1 8
+1 100
fn=(3)
9 20
cfn=(3)
calls=1 7
9 450
fn=(5) call
1 1
cfn=(4)
calls=2 8
* 60
summary: 2000
"""


def test_calls_from_everywhere_are_added_and_those_to_oneself_are_not() -> None:
    assert commands.inclusive(DUMP) == {
        "luaRedisGenericCommand": 900,
        "hsetCommand": 500,
        "zaddCommand": 160,
    }


def test_what_runs_a_script_is_no_command_inside_it() -> None:
    names = (
        "hsetCommand",
        "fcallCommand",
        "processCommand",
        "lookupCommand",
        "luaRedisGenericCommand",
        "hset",
    )
    assert [name for name in names if commands._COMMAND.match(name)] == ["hsetCommand"]
