"""The doctor's advice about server releases: Redis and Valkey have their own version numbers."""

from __future__ import annotations

import pytest

from mqredis.drivers.guard import OPTIONS
from mqredis.operations.doctor.advice import about_server
from mqredis.operations.server_facts import ServerFacts

LUA, EVICTED, FORGED = "CVE-2025-49844", "CVE-2026-23479", "CVE-2025-67733"
OUTPUT, OLD_LUA, FREED = "CVE-2025-21605", "CVE-2024-46981", "GHSA-fq2f-crmw-q97r"
LATE = "redis#13793"


def advisories(info: dict[str, str]) -> dict[str, str]:
    return {
        item.where: item.text for item in about_server(ServerFacts(info)) if item.code == "server.advisory"
    }


@pytest.mark.parametrize(
    "release, names",
    [
        ("6.2.16", {LUA, FORGED, OUTPUT, OLD_LUA}),
        ("7.0.15", {LUA, FORGED, OUTPUT, OLD_LUA}),
        ("7.2.20", {EVICTED, FORGED}),
        ("7.4.2", {LUA, EVICTED, FORGED, OUTPUT, LATE}),
        ("7.4.3", {LUA, EVICTED, FORGED}),
        ("7.4.9", set()),
        ("8.2.3", {EVICTED, FORGED}),
        ("8.6.3", set()),
    ],
)
def test_advisories_of_redis_releases(release: str, names: set[str]) -> None:
    found = advisories({"redis_version": release})
    assert set(found) == names
    assert all(text.startswith(f"Redis {release}: ") for text in found.values())


@pytest.mark.parametrize(
    "release, names",
    [
        ("7.2.7", {LUA, EVICTED, FORGED, OUTPUT, OLD_LUA}),
        ("7.2.13", set()),
        ("8.0.6", {EVICTED, FORGED, LATE}),
        ("8.1.1", {LUA, EVICTED, FORGED, LATE}),
        ("8.1.8", {LATE}),
        ("9.0.0", {EVICTED, FORGED, LATE}),
        ("9.0.4", {LATE}),
        ("9.1.1", {FREED, LATE}),
        ("9.1.2", {LATE}),
    ],
)
def test_advisories_of_valkey_releases_use_valkey_versions(release: str, names: set[str]) -> None:
    found = advisories({"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": release})
    assert set(found) == names
    assert all(text.startswith(f"Valkey {release}: ") for text in found.values())


def test_late_fsync_is_not_reported_with_appendfsync_always() -> None:
    assert LATE not in {
        item.where
        for item in about_server(ServerFacts({"redis_version": "7.4.2"}, {"appendfsync": "always"}))
    }


@pytest.mark.parametrize("release, said", [("6.0.16", True), ("6.2.0", False), ("", False)])
def test_unsupported_release_is_reported(release: str, said: bool) -> None:
    found = {item.code for item in about_server(ServerFacts({"redis_version": release}))}
    assert ("server.version" in found) == said


def test_the_embedded_server_is_set_up_as_the_doctor_wants() -> None:
    names = [option.removeprefix("--") for option in OPTIONS[::2]]
    config = dict(zip(names, OPTIONS[1::2], strict=True))
    found = about_server(ServerFacts({"redis_version": "8.6.4"}, config))
    assert [item for item in found if item.severity == "warning"] == []
    assert "server.notify" not in {item.code for item in found}
