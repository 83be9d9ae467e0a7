"""The settings of docker-compose.yml work on a real server, and the doctor accepts them."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import mqredis
from tests.support.server import RedisServer, server_version

SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).resolve().parents[2] / "docker-compose.yml").read_text()
)["services"]
SERVERS = [name for name in SERVICES if name != "cluster-init"]


def options(service: str) -> tuple[str, dict[str, str]]:
    """Return the program that the service starts and its settings."""
    words = shlex.split(SERVICES[service]["command"])
    if words[:2] == ["sh", "-c"]:
        words = shlex.split(words[2].removeprefix("exec "))
    settings = dict(zip(words[1::2], words[2::2], strict=True))
    assert all(name.startswith("--") for name in settings)
    return words[0], {name.removeprefix("--"): value for name, value in settings.items()}


@pytest.mark.parametrize("service", SERVERS)
def test_doctor_accepts_the_settings_of_each_server(
    service: str, start_server: Callable[..., RedisServer]
) -> None:
    _, settings = options(service)
    if "cluster-announce-hostname" in settings and server_version() < (7,):
        pytest.skip("nodes have host names since Redis 7")
    settings.pop("port", None)  # in the container a port is free
    with start_server(tcp=True, options=settings) as server, server.client() as raw:
        for name in ("appendonly", "appendfsync", "save", "maxmemory-policy", "protected-mode"):
            assert raw.config_get(name)[name] == settings[name]
        if "cluster-enabled" in settings:
            assert raw.info("cluster")["cluster_enabled"] == 1
            return
        with mqredis.connect(server.url) as qm:
            told = {item.code for item in qm.doctor().advice}
    assert told <= {"server.unlimited", "server.advisory"}


@pytest.mark.parametrize("service", SERVERS)
def test_health_check_uses_the_client_of_the_image(service: str) -> None:
    program, settings = options(service)
    row = SERVICES[service]
    product = "valkey" if "valkey" in row["image"] else "redis"
    assert program == f"{product}-server"
    kind, check = row["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    assert check.startswith(f"{product}-cli ")
    port = settings.get("port", "6379").replace("$$PORT", row.get("environment", {}).get("PORT", ""))
    assert [p for p in row["ports"] if p.startswith("127.0.0.1:") and p.endswith(f":{port}")] == row["ports"]


def test_cluster_is_created_with_the_ports_of_the_nodes() -> None:
    row = SERVICES["cluster-init"]
    nodes = [name for name in SERVICES if name.startswith("node")]
    assert sorted(row["depends_on"]) == nodes
    for name in nodes:
        port = SERVICES[name]["environment"]["PORT"]
        assert f'getent hosts {name} | cut -d" " -f1):{port}' in row["command"]
        assert SERVICES[name]["profiles"] == row["profiles"] == ["cluster"]
