"""The access modes of handles (MS-MQDMPR 3.1.7.1.5): each call of a handle that was not opened for it is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mqredis
from mqredis import Access, AccessDenied, Queue, Settings
from tests.support.backend import Backend

Use = Callable[[Queue, Queue], Any]

SENDS: dict[str, Use] = {
    "send": lambda q, _: q.send(b"x"),
    "send_many": lambda q, _: q.send_many([b"x"]),
    "send_group": lambda q, _: q.send_group([b"x"]),
}
PEEKS: dict[str, Use] = {
    "peek": lambda q, _: q.peek(0),
    "peek_by_lookup_id": lambda q, _: q.peek_by_lookup_id(1),
    "browse": lambda q, _: list(q.browse()),
    "browser": lambda q, _: q.browser(),
    "cursor": lambda q, _: q.cursor(),
}
RECEIVES: dict[str, Use] = {
    "receive": lambda q, _: q.receive(0),
    "receive_many": lambda q, _: q.receive_many(2),
    "receive_group": lambda q, _: q.receive_group(0),
    "receive_by_lookup_id": lambda q, _: q.receive_by_lookup_id(1),
    "lock": lambda q, _: q.lock(0),
    "lock_many": lambda q, _: q.lock_many(2, 0),
    "lock_by_lookup_id": lambda q, _: q.lock_by_lookup_id(1),
    "move": lambda q, target: q.move(1, target),
    "purge": lambda q, _: q.purge(),
    "cursor.receive": lambda q, _: q.cursor().receive(0),
    "browser.first": lambda q, _: q.browser().first(lock=True),
    "browser.take": lambda q, _: q.browser().take(),
}


@pytest.mark.parametrize(
    "access, refused",
    [(Access.SEND, PEEKS | RECEIVES), (Access.PEEK, SENDS | RECEIVES), (Access.RECEIVE, SENDS)],
    ids=["send", "peek", "receive"],
)
def test_calls_outside_the_access_mode_of_a_handle_are_refused(
    backend: Backend, access: Access, refused: dict[str, Use]
) -> None:
    with mqredis.connect(backend.client(), settings=Settings(allow_volatile=True)) as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            q.send(b"x")
        with qm.open("q", access) as q, qm.open("q;sub", Access.RECEIVE) as target:
            for name, use in refused.items():
                with pytest.raises(AccessDenied, match=f"opened with access '{access.value}'"):
                    pytest.fail(f"{name} returned {use(q, target)!r}")
        assert qm.queue_info("q").messages == 1
