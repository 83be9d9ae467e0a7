"""What searches and the index of identifiers cost, counted as in ``test_cost``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis import Outgoing
from tests.contract.cost import build_indexes, cost
from tests.support.server import RedisServer


def test_identifiers_cost_nothing_until_a_search(qm: mqredis.QueueManager, redis_server: RedisServer) -> None:
    queue = qm.open("q")
    batch = [mqredis.Outgoing(body=b"x" * 64, correlation_id="c")] * 100
    for indexed in (False, True):
        assert cost(redis_server, lambda: queue.send(b"x", correlation_id="c")) == (1, 5)
        assert cost(redis_server, lambda: queue.send_many(batch)) == (1, 6)
        assert cost(redis_server, lambda: queue.receive(0)) == (1, 7 + indexed)
        build_indexes(queue)


def test_identifiers_cost_transactional_batches_nothing(
    qm: mqredis.QueueManager, redis_server: RedisServer
) -> None:
    queue = qm.open("t")
    costs = []
    for identity in (None, "c"):
        with qm.transaction() as unit:
            queue.send_many([Outgoing(body=b"x", correlation_id=identity)] * 40, transaction=unit)
        units = [qm.transaction() for _ in range(11)]
        each = iter(units)
        costs.append(cost(redis_server, lambda: queue.receive_many(2, 0, transaction=next(each))))  # noqa: B023
        for unit in units:
            unit.commit()
        queue.purge()
    assert costs[0] == costs[1]


def test_search_cost_depends_on_new_messages(qm: mqredis.QueueManager, redis_server: RedisServer) -> None:
    queue = qm.open("q")
    queue.send(b"x", correlation_id="c")

    def search() -> None:
        assert queue.peek(0, match=mqredis.Match(correlation_id="c")).body == b"x"

    def new() -> None:
        queue.send(b"x", correlation_id="d")
        search()

    # What each call reads (2), the end of the queue, the index, and the message that it names, with its state.
    assert cost(redis_server, search) == (1, 6)
    # The send; then ids and records of what is new, their entries in the index, its reach, the number of the call.
    assert cost(redis_server, new) == (2, 5 + 6 + 5)


@pytest.mark.parametrize(
    "records, search",
    [
        (1, lambda queue: queue.peek(0, match=mqredis.Match(message_id="m"))),
        (1, lambda queue: queue.peek(0, match=mqredis.Match(correlation_id="c"))),
        (1, lambda queue: queue.peek(0, match=mqredis.Match(group_id="g"))),
        (1, lambda queue: queue.browser().first(0, unmarked=True)),
        (64, lambda queue: queue.peek(0, selector="n = 1")),
        (64, lambda queue: queue.peek(0, match=mqredis.Match(sequence=1))),
    ],
    ids=["message id", "correlation id", "group id", "marks", "selector", "sequence"],
)
def test_search_reads_a_page_only_where_candidates_may_not_match(
    qm: mqredis.QueueManager, redis_server: RedisServer, records: int, search: Callable[[Any], Any]
) -> None:
    """Where all do it reads one record, the one that it returns."""
    qm.create_queue("x", group_exclusive=True)  # the index alone does not answer a search in such a queue
    with qm.open("x") as queue, redis_server.client() as client:
        some: dict[str, Any] = {"message_id": "m", "correlation_id": "c", "group_id": "g", "sequence": 1}
        queue.send_many([Outgoing(body=b"x", properties={"n": 1}, **some)] * 100)
        search(queue)  # builds the index
        with client.monitor() as monitor:
            assert search(queue).body == b"x"
            client.echo("the end")
            commands = takewhile(
                lambda words: words[0] != "ECHO", (each["command"].split() for each in monitor.listen())
            )
            read = [len(words) - 2 for words in commands if words[0] == "HMGET" and words[1].endswith(":m")]
    assert read == [records]


def test_search_with_a_costly_selector_takes_several_calls(
    qm: mqredis.QueueManager, redis_server: RedisServer
) -> None:
    queue = qm.open("q")
    queue.send_many([b"x"] * 100)
    selector = " OR ".join(f"a{n} * a{n} / 3 = 1" for n in range(120))

    def search() -> None:
        with pytest.raises(mqredis.IoTimeout):
            queue.peek(0, selector=selector)

    # One call tests 5 to 30 messages (tests/selector/test_cost.py).
    assert 3 < cost(redis_server, search, times=1)[0] <= 20
