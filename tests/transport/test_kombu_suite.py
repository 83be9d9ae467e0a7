"""kombu's own integration classes, unchanged, from its source distribution, with nothing skipped.

Most of their callbacks assert only if they are called. So every test is counted: one that should have received
messages and did not fails here.
"""

from __future__ import annotations

from typing import Any

import kombu
import pytest

from tests.transport.conftest import OPTIONS, load, sources

common = load("kombu_integration_common", sources("kombu") / "t" / "integration" / "common.py")

# How many messages a test must receive: none where it publishes none, or where none may arrive.
EXPECTED = {
    "test_publish_consume": 1,
    "test_simple_queue_publish_consume": 1,
    "test_simple_buffer_publish_consume": 1,
    "test_direct": 1,
    "test_direct_routing_keys": 1,
    "test_fanout": 2,
    "test_topic": 2,
    "test_ack": 1,
    "test_reject_no_requeue": 1,
    "test_reject_requeue": 2,
    "test_requeue": 2,
    "test_ack_from_another_thread": 2,
    "test_publish_requeue_consume": 7,
}
PRIORITY = {
    "test_publish_consume": 3,
    "test_simple_queue_publish_consume": 3,
    "test_simple_buffer_publish_consume": 3,
}


@pytest.fixture(autouse=True)
def delivered(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """Count the messages that reach a consumer or a basic_get."""
    import mqredis.kombu.channel

    count: list[str] = []

    class Counting(mqredis.kombu.channel.Channel.Message):  # type: ignore[misc, name-defined]
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            count.append(self.delivery_tag)

    monkeypatch.setattr(mqredis.kombu.channel.Channel, "Message", Counting)
    yield
    expected = EXPECTED.get(request.node.name, 0)
    if isinstance(request.instance, common.BasePriority):
        expected = {**EXPECTED, **PRIORITY}[request.node.name]
    if isinstance(request.instance, common.BaseTimeToLive):
        expected = 0
    assert len(count) == expected


@pytest.fixture
def invalid_connection() -> Any:
    import mqredis.kombu  # noqa: F401 - for its effect

    return kombu.Connection("mqredis://localhost:12345", transport_options=OPTIONS)


@pytest.fixture
def failover_connection(server) -> Any:
    import mqredis.kombu  # noqa: F401 - for its effect

    good = server.tcp_url.replace("redis://", "mqredis://")
    connection = kombu.Connection(
        f"mqredis://localhost:12345;{good}", connect_timeout=10, transport_options=OPTIONS
    )
    yield connection
    connection.release()


class TestBasicFunctionality(common.BasicFunctionality):  # type: ignore[misc, name-defined]
    pass


class TestExchangeTypes(common.BaseExchangeTypes):  # type: ignore[misc, name-defined]
    pass


class TestTimeToLive(common.BaseTimeToLive):  # type: ignore[misc, name-defined]
    pass


class TestPriority(common.BasePriority):  # type: ignore[misc, name-defined]
    PRIORITY_ORDER = "asc"


class TestMessage(common.BaseMessage):  # type: ignore[misc, name-defined]
    pass


class TestFailover(common.BaseFailover):  # type: ignore[misc, name-defined]
    pass


if hasattr(common, "BaseEventLoop"):

    class TestEventLoop(common.BaseEventLoop):  # type: ignore[misc, name-defined]
        pass
