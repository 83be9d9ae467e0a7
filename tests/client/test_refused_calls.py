"""Errors of calls that a queue refuses name the queue and say what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import mqredis
import mqredis.asyncio
from mqredis import MqError, Outgoing, Queue, QueueManager, Settings
from mqredis.commands import contents, features
from mqredis.operations.queue_call import QueueCall
from mqredis.steps import perform
from tests.support.backend import Backend

NAME = "refusals"


@pytest.fixture
def qm(backend: Backend) -> Iterator[QueueManager]:
    settings = Settings(allow_volatile=True)
    with mqredis.connect(backend.client(), manager=NAME, settings=settings) as qm:
        qm.create_queue("q")
        yield qm
        assert qm.doctor().healthy


def put_inhibited(queue: Queue) -> object:
    queue.manager.update_queue("q", put_inhibited=True)
    return queue.send(b"x")


def get_inhibited(queue: Queue, timeout: float = 0) -> object:
    queue.manager.update_queue("q", get_inhibited=True)
    return queue.receive(timeout)


def quota(queue: Queue) -> object:
    queue.manager.update_queue("q", quota_messages=0)
    return queue.send(b"x")


def throttled(queue: Queue) -> object:
    queue.manager.throttle(True)
    return queue.send(b"x")


def duplicate(queue: Queue) -> object:
    queue.send(b"x", dedup_key="order-7")
    return queue.send(b"x", dedup_key="order-7")


def duplicates(queue: Queue) -> object:
    return queue.send_many([Outgoing(b"x", dedup_key="order-7")] * 2)


def deleted(queue: Queue, use: Callable[[Queue], object] = lambda queue: queue.send(b"x")) -> object:
    queue.manager.delete_queue("q")
    return use(queue)


def too_large(queue: Queue) -> object:
    queue.manager.update_queue("q", max_message_bytes=100)
    return queue.send(b"x" * 200)


def published(queue: Queue) -> object:
    manager = queue.manager
    manager.create_queue("news", topic=True)
    manager.subscribe("news", "q")
    manager.update_queue("q", quota_messages=0)
    with manager.open("news") as news:
        return news.send(b"x")


def missing(queue: Queue) -> object:
    return queue.receive_by_lookup_id(1)


def moved_while_locked(queue: Queue) -> object:
    queue.send(b"x")
    with queue.lock(0) as lock, queue.manager.open("q;later") as later:
        queue.move(lock.message.lookup_id, later)
    return None


def unknown_queue(queue: Queue) -> object:
    return queue.manager.open("Q;later")


def denied(queue: Queue) -> object:
    return queue.manager.open("q", mqredis.Access.RECEIVE, mqredis.Share.DENY_RECEIVE)


def unfinished_group(queue: Queue) -> object:
    with queue.group() as group:
        return group.send(b"x")


def unfinished_segments(queue: Queue) -> object:
    with queue.group() as group:
        return group.send(b"x", segment=True)


SEGMENTS = "raise max_message_bytes of the queue and of the settings, or send it in segments"
CASES: dict[str, tuple[Callable[[Queue], object], type[MqError], str]] = {
    "put inhibited": (
        put_inhibited,
        mqredis.PutInhibited,
        r"sending to queue 'q' is switched off: update_queue\(name, put_inhibited=False\)",
    ),
    "get inhibited": (
        get_inhibited,
        mqredis.GetInhibited,
        r"reading from queue 'q' is switched off: update_queue\(name, get_inhibited=False\)",
    ),
    "get inhibited while waiting": (
        lambda queue: get_inhibited(queue, 5),
        mqredis.GetInhibited,
        "reading from queue 'q'",
    ),
    "quota": (
        quota,
        mqredis.QueueQuotaExceeded,
        "quota of queue 'q': receive or purge messages, or raise quota_messages or quota_bytes with update_queue",
    ),
    "throttled": (
        throttled,
        mqredis.ManagerQuotaExceeded,
        r"queue manager 'refusals' takes no message for queue 'q': .* throttle\(False\); .* set_quota",
    ),
    "duplicate": (
        duplicate,
        mqredis.DuplicateMessage,
        "a message with the dedup key 'order-7' was accepted by queue 'q' within",
    ),
    "duplicates": (duplicates, mqredis.DuplicateMessage, "with the same dedup key was accepted by queue 'q'"),
    "deleted": (
        deleted,
        mqredis.QueueNotAvailable,
        "queue 'q' of queue manager 'refusals' was deleted after",
    ),
    "deleted under a reader": (
        lambda queue: deleted(queue, lambda queue: queue.receive(0)),
        mqredis.QueueNotAvailable,
        "queue 'q' of queue manager 'refusals' was deleted after",
    ),
    "too large": (too_large, mqredis.MessageTooLarge, f"queue 'q' .*: {SEGMENTS}"),
    "too large for the settings": (
        lambda queue: queue.send(b"x" * 5_000_000),
        mqredis.MessageTooLarge,
        f"queue 'q' allows 4194304: {SEGMENTS}",
    ),
    "published": (
        published,
        mqredis.QueueQuotaExceeded,
        "quota of topic 'news' or a queue that subscribed to it: receive",
    ),
    "missing message": (
        missing,
        mqredis.MessageNotFound,
        "no such message is available in queue 'q': it was",
    ),
    "locked message": (
        moved_while_locked,
        mqredis.MessageLocked,
        "has locked the message of queue 'q', or it is delayed: try again when it is available",
    ),
    "unknown queue": (
        unknown_queue,
        mqredis.QueueNotFound,
        "there is no queue 'Q' in queue manager 'refusals': create it with create_queue",
    ),
    "denied": (
        denied,
        mqredis.SharingViolation,
        "another open handle of queue 'q' excludes this one: close it",
    ),
    "unfinished group": (unfinished_group, mqredis.GroupIncomplete, "send it with last=True"),
    "unfinished segments": (unfinished_segments, mqredis.GroupIncomplete, "send it without segment=True"),
}


@pytest.mark.parametrize("name", CASES)
def test_error_names_the_queue_and_what_to_do(qm: QueueManager, name: str) -> None:
    call, kind, expected = CASES[name]
    with qm.open("q") as queue:
        with pytest.raises(kind, match=expected) as caught:
            call(queue)
        assert type(caught.value) is kind


async def test_asyncio_error_names_the_queue(backend: Backend) -> None:
    settings = Settings(allow_volatile=True)
    async with mqredis.asyncio.connect(backend.async_client(), manager=NAME, settings=settings) as qm:
        await qm.create_queue("q", put_inhibited=True)
        async with qm.open("q") as queue:
            with pytest.raises(mqredis.PutInhibited, match="sending to queue 'q' is switched off"):
                await queue.send(b"x")


def test_full_transaction_is_named_in_the_error(qm: QueueManager) -> None:
    qm.create_queue("t", transactional=True)
    with qm.open("t") as queue, qm.transaction(id="big") as tx:
        for _ in range(4):
            queue.send_many([b"x"] * 250, transaction=tx)
        with pytest.raises(
            mqredis.TransactionTooLarge, match=r"transaction 'big' .* the call on queue 't' did nothing"
        ):
            queue.send(b"x", transaction=tx)


def test_request_on_a_transactional_queue_is_refused(qm: QueueManager) -> None:
    qm.create_queue("t", transactional=True)
    with qm.open("t") as queue:
        with pytest.raises(mqredis.TransactionUsage, match="request needs a queue that is not transactional"):
            qm.request(queue, b"x", timeout=1)
        assert [info.name for info in qm.queues()] == ["q", "t"]


def test_lost_lock_error_says_how_to_keep_a_lock(backend: Backend) -> None:
    settings = Settings(allow_volatile=True, test_clock=True)
    with mqredis.connect(backend.client(), manager=NAME, settings=settings) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            queue.send(b"x")
            lock = queue.lock(0, lease=10)
            qm.advance_clock(11)
            advice = r"is available again; call extend\(\) in time, or lock with a longer lease"
            with pytest.raises(mqredis.LockLost, match=advice):
                lock.commit()


# Calls through a handle, each with its script.
CALLS: dict[str, Callable[[Queue], object]] = {
    "send": lambda queue: queue.send(b"x"),
    "receive": lambda queue: queue.receive(0),
    "receive while waiting": lambda queue: queue.receive(5),
    "peek": lambda queue: queue.peek(0),
    "lookup": lambda queue: queue.peek_by_lookup_id(1),
    "purge": lambda queue: queue.purge(),
    "cancel": lambda queue: queue.cancel("tag"),
}


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "created again"])
@pytest.mark.parametrize("name", CALLS)
def test_handle_of_a_deleted_queue_is_refused(qm: QueueManager, name: str, again: bool) -> None:
    with qm.open("q") as queue:
        qm.delete_queue("q")
        if again:
            qm.create_queue("q")
        with pytest.raises(mqredis.QueueNotAvailable, match=r"queue 'q' .* was deleted after"):
            CALLS[name](queue)


@pytest.mark.parametrize("settlement", ["commit", "abort", "reject", "extend"])
def test_lock_of_a_deleted_queue_cannot_be_settled(qm: QueueManager, settlement: str) -> None:
    with qm.open("q") as queue:
        queue.send(b"x")
        lock = queue.lock(0)
        qm.delete_queue("q")
        with pytest.raises(mqredis.QueueNotAvailable, match=r"queue 'q' .* was deleted after"):
            getattr(lock, settlement)()


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "created again"])
def test_queue_may_be_deleted_between_the_calls_of_an_operation(qm: QueueManager, again: bool) -> None:
    with qm.open("q") as queue:
        address = queue.handle.address
        qm.delete_queue("q")
        if again:
            qm.create_queue("q")
        with pytest.raises(mqredis.QueueNotAvailable):
            qm.run(QueueCall(address, features.redrive(address, "", ["0" * 16])))
        assert not qm.run(perform(contents.forget_marks(address, "1.0-1")))


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "created again"])
def test_handle_of_a_deleted_topic_is_refused(qm: QueueManager, again: bool) -> None:
    qm.create_queue("news", topic=True)
    with qm.open("news") as news:
        qm.delete_queue("news")
        if again:
            qm.create_queue("news", topic=True)
        with pytest.raises(mqredis.QueueNotAvailable, match=r"'news' .* was deleted after"):
            news.send(b"x")


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "created again"])
def test_lock_on_a_message_of_a_deleted_queue_is_lost(qm: QueueManager, again: bool) -> None:
    with qm.open("q") as queue:
        queue.send(b"x")
        lock = queue.lock(0)
        qm.delete_queue("q")
        if again:
            qm.create_queue("q")
        with pytest.raises((mqredis.QueueNotAvailable, mqredis.LockLost)):
            lock.commit()
