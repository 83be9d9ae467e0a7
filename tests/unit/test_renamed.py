"""Old names of settings, properties, options and metrics are accepted with a warning that gives the new name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mqredis
from mqredis import InvalidArgument, RetryPolicy, Settings, renamed
from mqredis.cli import main
from mqredis.drivers.connect import forget_store
from mqredis.prometheus.text import Metric, render_text

Rename = Callable[[str, str, str], None]


@pytest.fixture
def rename(monkeypatch: pytest.MonkeyPatch) -> Rename:
    """Return a function that adds a renamed name for the test."""
    return lambda kind, old, new: monkeypatch.setitem(renamed.RENAMED[kind], old, new)


def given(**names: Any) -> dict[str, Any]:
    """Keyword arguments that the type checker does not know."""
    return names


def test_old_setting_name_is_accepted_with_a_warning(rename: Rename) -> None:
    rename("setting", "lock_seconds", "lease_seconds")
    with pytest.warns(FutureWarning, match="'lock_seconds' is called 'lease_seconds' now"):
        assert Settings(**given(lock_seconds=5)).lease_seconds == 5
    with pytest.warns(FutureWarning, match="lease_seconds"):
        assert Settings.from_env({"MQREDIS_LOCK_SECONDS": "6"}).lease_seconds == 6
    with pytest.warns(FutureWarning, match="lease_seconds"):
        assert Settings.from_env({"MQREDIS_LEASE_SECONDS": "6"}, lock_seconds=7).lease_seconds == 7
    with pytest.warns(FutureWarning, match="lease_seconds"):
        both = Settings.from_env({"MQREDIS_LOCK_SECONDS": "6", "MQREDIS_LEASE_SECONDS": "7"})
    assert both.lease_seconds == 7  # the present name wins
    assert Settings(lease_seconds=8).lease_seconds == 8
    with pytest.raises(InvalidArgument, match="lease_seconds"), pytest.warns(FutureWarning, match="lease"):
        Settings.from_env({"MQREDIS_LOCK_SECONDS": "never"})


def test_old_queue_property_name_is_accepted_with_a_warning(rename: Rename) -> None:
    rename("property", "capacity", "quota_messages")
    with mqredis.connect("memory://renamed") as qm:
        with pytest.warns(DeprecationWarning, match="'capacity' is called 'quota_messages' now"):
            assert qm.create_queue("q", **given(capacity=5)).quota_messages == 5
        with pytest.warns(DeprecationWarning, match="quota_messages"):
            assert qm.update_queue("q", **given(capacity=6)).quota_messages == 6
    forget_store("renamed")


def test_old_retry_policy_field_is_accepted_with_a_warning(rename: Rename) -> None:
    rename("property", "quickly", "immediate")
    with pytest.warns(DeprecationWarning, match="immediate"):
        assert RetryPolicy(**given(quickly=3)).immediate == 3
    with pytest.warns(DeprecationWarning, match="'deliveries' is called 'attempts' now"):
        assert RetryPolicy(immediate=3).deliveries == 4


def test_old_command_line_option_is_accepted_with_a_warning(
    rename: Rename, capsys: pytest.CaptureFixture[str]
) -> None:
    rename("option", "--part", "--role")
    for words in (["--part", "worker"], ["--part=worker"]):
        with pytest.warns(FutureWarning, match="'--part' is called '--role' now"):
            assert main(["acl", *words, "--manager", "shop"]) == 0
        assert "shop-worker" in capsys.readouterr().out
    assert renamed.words(["send", "q", "--", "--part"]) == ["send", "q", "--", "--part"]


def test_renamed_metric_is_exported_under_both_names(rename: Rename) -> None:
    rename("metric", "mqredis_old", "mqredis_new")
    metric = Metric("mqredis_new", "gauge", "About.", (({"queue": name}, 1.0) for name in "ab"))
    assert [line for line in render_text([metric]).splitlines() if line.startswith("mqredis")] == [
        'mqredis_new{queue="a"} 1', 'mqredis_new{queue="b"} 1', 'mqredis_old{queue="a"} 1', 'mqredis_old{queue="b"} 1',
    ]  # fmt: skip


def test_new_names_exist() -> None:
    assert set(renamed.RENAMED["setting"].values()) <= set(Settings.model_fields)
    properties = {*mqredis.QueueProperties.model_fields, *RetryPolicy.model_fields}
    assert set(renamed.RENAMED["property"].values()) <= properties
