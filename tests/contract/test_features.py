"""The table of features and the parts that it depends on name the same fields, timers and hooks."""

from __future__ import annotations

import re
from typing import Any

from mqredis.models.fields import FIELDS, SPECIAL, TRACED
from tests.contract.test_constants import LUA, all_code, code_of, pairs
from tests.contract.test_stored_texts import module

# Of these fields the broker itself sets one, and the other asks for nothing again in a copy.
OF_THE_BROKER = {"trash", "trail"}
IDENTIFIERS = {"message_id", "correlation_id", "group_id"}


def features() -> list[dict[str, Any]]:
    """The lines of the table, whose modules are not loaded here."""
    return [pairs(feature) for feature in module("features/features").list.values()]


def names(key: str) -> set[str]:
    """What all features have in this column."""
    return {name for feature in features() for name in (feature[key].values() if feature.get(key) else ())}


def test_fields_that_ask_for_a_feature_are_special_in_the_client() -> None:
    asking = names("fields") | set(module("features/features").traced.values()) | {"time_to_reach_queue"}
    special = {name for name, field in FIELDS.items() if field.about & SPECIAL}
    # A correlation id has a flag of its own (core/record, named).
    assert asking - OF_THE_BROKER == special | {"correlation_id"}
    assert set(module("features/features").traced.values()) == {
        name for name, field in FIELDS.items() if field.about & TRACED
    }


def test_copies_suspend_every_field_that_asks_for_something() -> None:
    asking = {name for name, field in FIELDS.items() if field.about & SPECIAL} - IDENTIFIERS
    suspended = set(module("features/copy").requests.values()) | set(
        module("core/record").dedup_fields.values()
    )
    assert suspended == asking | {"dedup_window"}


def test_each_kind_of_timer_has_a_feature_that_serves_it() -> None:
    # The window of a dedup key ends with its timer, and nothing else happens then (lapse.timers).
    assert names("timers") | {"dedup_key"} == set(pairs(module("core/timers").letters))


def test_hooks_are_those_that_are_called() -> None:
    called = set(re.findall(r'features\.(?:run|pass)\("(\w+)"', all_code())) | {"plan_due", "due"}
    assert called == {"plan", "accept", "arrive", "leave", "unlock", "move", "plan_due", "due"}
    for feature in features():
        code = code_of(LUA / f"features/{feature['name']}.lua")
        table = re.search(rf"^{feature['name']}\.hooks = \{{(.*?)\}}", code, re.MULTILINE | re.DOTALL)
        assert table is not None, feature["name"]
        hooks = dict(re.findall(r"(\w+) = ([\w.]+)", table[1]))
        assert hooks == {hook: f"{feature['name']}.{hook}" for hook in hooks}
        assert hooks.keys() <= called
        assert ("due" in hooks) == ("plan_due" in hooks) == bool(feature.get("timers"))
