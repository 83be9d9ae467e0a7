"""A power cut keeps synced writes only, and no guarantee relies on more."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import mqredis
from mqredis import UnsafeServer
from mqredis.models import Outgoing
from tests.reliability.store import append_only_file
from tests.support import preload
from tests.support.power import PowerServer
from tests.support.preload import CompilerMissing, lacking
from tests.support.replication import syncs_on_demand

needs_compiler = pytest.mark.skipif(bool(lacking()), reason=lacking())


@pytest.fixture
def start_power() -> Iterator[Callable[[str], PowerServer]]:
    servers: list[PowerServer] = []

    def start(policy: str) -> PowerServer:
        servers.append(PowerServer(policy))
        return servers[-1].start()

    yield start
    for server in servers:
        server.close()


@needs_compiler
@pytest.mark.parametrize("policy, cut, left", [("always", True, 1), ("no", True, 0), ("no", False, 1)])
def test_power_cut_loses_only_unsynced_writes(
    start_power: Callable[[str], PowerServer], policy: str, cut: bool, left: int
) -> None:
    server = start_power(policy)
    with server.client() as raw:
        raw.set("x", "1")
    if cut:
        server.cut()
    else:
        server.kill()  # written data is in the page cache and survives
    server.start()
    with server.client() as raw:
        assert raw.exists("x") == left
    assert bool(server.gone) == (left == 0)


@needs_compiler
def test_send_confirmed_as_synced_survives_a_power_cut(start_power: Callable[[str], PowerServer]) -> None:
    server = start_power("everysec")
    with mqredis.connect(server.url) as qm:
        qm.create_queue("q")
        server.rewrite_log()
        q = qm.open("q")
        if not syncs_on_demand(server):
            with pytest.raises(UnsafeServer, match="appendfsync always"):
                q.send(b"x", durability="fsync")
            return
        for _ in range(2):  # the second send comes soon after an fsync and has to wait for the next
            q.send(b"x", durability="fsync")
    server.cut()
    server.start()
    with mqredis.connect(server.url) as qm:
        assert qm.info().messages == 2


@needs_compiler
def test_log_truncated_inside_a_unit_of_work_is_rewritten(
    start_power: Callable[[str], PowerServer],
) -> None:
    """Redis truncates the log after the last complete command. Without a rewrite the next start would load half a unit
    of work."""
    server = start_power("always")
    with mqredis.connect(server.url) as qm:
        qm.create_queue("q")
        q = qm.open("q")
        q.send(b"there")
        file = append_only_file(server)
        before = file.stat().st_size
        q.send_many([Outgoing(body=b"torn")] * 3)
        after = file.stat().st_size
    server.kill()
    data = file.read_bytes()
    file.write_bytes(data[: data.rindex(b"meta", before, after)])  # inside the last of its commands
    server.start()
    server.rewrite_log()
    with mqredis.connect(server.url) as qm, qm.open("q") as q:
        q.send(b"after")
    server.restart(kill=True)
    with mqredis.connect(server.url) as qm, qm.open("q") as q:
        assert [message.body for message in q.browse()] == [b"there", b"after"]
        assert qm.doctor().healthy


def test_missing_compiler_is_named_as_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert "no cc on PATH" in lacking()
    with pytest.raises(CompilerMissing, match="no cc on PATH"):
        preload.library.__wrapped__("synced.c")
