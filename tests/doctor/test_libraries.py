"""The doctor's findings about function libraries that other releases left on the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mqredis
from mqredis import QueueManager, ScriptsNotLoaded, Settings, scripts
from mqredis.operations import libraries
from mqredis.reports import Finding
from mqredis.steps import Refused
from tests.support.server import RedisServer, server_version


def test_libraries_of_other_releases_are_reported_and_removed_by_a_repair() -> None:
    """The list of libraries is simulated, since the tests share one server."""
    current = scripts.get("send").library.title
    there = [current, "mqredis_0123456789ab_send", "mqredis_other_tool", "somebody_elses"]
    commands: list[tuple[object, ...]] = []

    def answers(operation: Any) -> list[Finding]:
        steps = iter(operation)
        answer: Any = None
        try:
            while True:
                step: Any = steps.send(answer)
                commands.append(step.args)
                if step.args[1] == "LIST":
                    answer = [
                        [b"library_name", name.encode(), b"engine", b"LUA", b"functions", []]
                        for name in there
                    ]
                else:
                    there.remove(step.args[2])
                    answer = b"OK"
        except StopIteration as stop:
            found: list[Finding] = stop.value
            return found

    (reported,) = answers(libraries.examine(repair=False))
    assert (reported.where, reported.severity, reported.repairable) == (
        "mqredis_0123456789ab_send",
        "notice",
        True,
    )
    assert len(there) == 4
    (repaired,) = answers(libraries.examine(repair=True))
    assert repaired.repaired
    assert there == [current, "mqredis_other_tool", "somebody_elses"]
    assert answers(libraries.examine(repair=True)) == []


def test_refused_library_list_gives_no_findings() -> None:
    operation = iter(libraries.examine(repair=True))
    next(operation)
    with pytest.raises(StopIteration) as stop:
        operation.send(Refused("unknown command", False))
    assert stop.value.value == []


SETTINGS = Settings(allow_volatile=True)
needs_functions = pytest.mark.skipif(
    server_version() < (7,), reason="a server before Redis 7 has no functions"
)


@pytest.fixture
def server(start_server: Callable[..., RedisServer], monkeypatch: pytest.MonkeyPatch) -> RedisServer:
    """A server of the test's own. For the doctor, every library on it is one of another release."""
    monkeypatch.setattr(scripts, "libraries", list)
    return start_server(tcp=True)


def repair(server: RedisServer) -> set[str]:
    """Run the doctor twice, without and with a repair. Returns the libraries that the repair deleted for good: its own
    calls load some of them again."""

    def there() -> set[str]:
        with server.client() as raw:
            return {library[1].decode() for library in raw.function_list(library="mqredis_*")}

    with mqredis.connect(server.url, settings=SETTINGS) as qm:
        before = there()
        assert "server.libraries" in {item.code for item in qm.doctor().advice}
        assert before <= there(), "without a repair nothing is deleted"
        found = {item.code: item.repaired for item in qm.doctor(repair=True).advice}
    assert found["server.libraries"]
    return before - there()


@needs_functions
def test_client_of_another_release_loads_its_deleted_libraries_again(server: RedisServer) -> None:
    with mqredis.connect(server.url, settings=SETTINGS) as other:
        other.create_queue("q")
        queue = other.open("q")
        queue.send_many([b"1", b"2"])
        lock = queue.lock(0)
        assert scripts.get("send").library.title in repair(server)
        queue.send(b"3")
        lock.commit()
        assert [message.body for message in queue.receive_many(9, 0)] == [b"2", b"3"]


@needs_functions
def test_client_of_another_release_that_may_not_load_scripts_is_told_that_nothing_was_done(
    server: RedisServer,
) -> None:
    def messages(qm: QueueManager) -> int:
        return qm.queue_info("q").messages

    with mqredis.connect(server.url, settings=SETTINGS) as qm:
        qm.create_queue("q")
        qm.open("q").send(b"1")
        with server.client() as raw:
            raw.execute_command(
                "ACL", "SETUSER", "app", "on", ">x", "~*", "&*", "+@all", "-function", "-script"
            )
        url = server.tcp_url.replace("redis://", "redis://app:x@")
        with mqredis.connect(url, settings=SETTINGS) as other:
            queue = other.open("q")
            queue.send(b"2")
            repair(server)
            with pytest.raises(ScriptsNotLoaded, match="nothing was done"):
                queue.send(b"3")
            assert messages(qm) == 2
            qm.open("q").send(b"4")  # this client loads the library, as the deploy step does
            queue.send(b"5")
            assert messages(qm) == 4
