"""What a worker does with a message, seen in bursts: on a real server and on fakeredis."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

import mqredis
from mqredis.sealing import AesGcm
from mqredis.testing import drain
from mqredis.worker import AsyncUnit, Reject, Retry, RetryLater, Unit, Worker


class Order(BaseModel):
    item: str
    amount: int


@pytest.fixture(params=[False, True], ids=["locks", "transactions"])
def transactional(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def put(qm, transactional):
    """Creates a queue if need be, and sends to it."""

    def put(name: str, *bodies: bytes, **fields) -> None:
        if not qm.queues(name):
            qm.create_queue(name, transactional=transactional)
        with qm.open(name) as queue:
            if not transactional:
                for body in bodies:
                    queue.send(body, **fields)
                return
            with qm.transaction() as tx:
                for body in bodies:
                    queue.send(body, transaction=tx, **fields)

    return put


def burst(worker: Worker, qm, errors: str = "log") -> int:
    return worker.run(burst=True, manager=qm, errors=errors, signals=False)


def bodies(qm, name: str) -> list[bytes]:
    with qm.open(name) as queue:
        return [message.body for message in drain(queue)]


def test_messages_are_handled_in_order_and_gone(qm, worker, put):
    put("q", b"1", b"2", b"3")
    seen: list[Any] = []

    @worker.consumer("q")
    def handle(message):
        seen.append(message.body)

    assert burst(worker, qm) == 3
    assert seen == [b"1", b"2", b"3"]
    assert qm.queue_info("q").messages == 0


def test_what_is_sent_goes_with_the_message(qm, worker, put):
    put("in", b'{"item": "tea", "amount": 2}')
    put("out")

    @worker.consumer("in")
    def handle(order: Order, tx: Unit):
        tx.send("out", {"line": f"{order.amount} {order.item}"}, priority=5)

    assert burst(worker, qm) == 1
    assert bodies(qm, "out") == [b'{"line": "2 tea"}']


def test_nothing_is_sent_by_a_handler_that_fails(qm, worker, put):
    put("in", b"x")
    put("out")

    @worker.consumer("in", retry=Retry(delay=10, jitter=0))
    def handle(message, tx: Unit):
        tx.send("out", b"never")
        raise OSError("the disk is full")

    assert burst(worker, qm) == 0
    qm.advance_clock(9)
    assert burst(worker, qm) == 0
    assert worker.consumers[0].failed == 1
    qm.advance_clock(2)
    assert burst(worker, qm) == 0
    assert worker.consumers[0].failed == 2
    assert bodies(qm, "out") == []
    assert qm.statistics("in").retry_messages == 1


@pytest.mark.parametrize("dead_letter", ["dead", None])
def test_a_message_that_always_fails_is_kept_with_its_error(qm, worker, put, dead_letter):
    put("in", b"x", properties={"n": 1}, label="l")
    put("dead")
    worker.name = "w1"

    @worker.consumer("in", retry=Retry(attempts=3, delay=1, jitter=0), dead_letter=dead_letter, name="h")
    def handle(message):
        raise OSError("the disk is full")

    for _ in range(4):
        burst(worker, qm)
        qm.advance_clock(60)
    assert worker.consumers[0].failed == 3
    assert qm.queue_info("in").messages == 0
    with qm.open(dead_letter or "in;poison") as dead:
        (letter,) = dead.browse()
    told = dict(letter.properties)
    assert (letter.body, letter.label, told.pop("n")) == (b"x", "l", 1)
    assert letter.reason == "poison: OSError: the disk is full"
    assert "in handle" in told.pop("failure_traceback")
    assert letter.arrived_at.timestamp() <= told.pop("failure_time") <= letter.arrived_at.timestamp() + 3600
    assert told == {
        "failure_attempts": 3,
        "failure_reason": "OSError: the disk is full",
        "failure_error": "OSError: the disk is full",
        "failure_worker": "w1",
        "failure_handler": "h",
    }
    assert qm.redrive(dead_letter or "in;poison") == 1
    with qm.open("in") as queue:
        (back,) = queue.browse()
    assert (back.body, back.label, back.properties) == (b"x", "l", {"n": 1})


def test_a_long_traceback_is_cut_and_its_end_is_kept(qm, worker, put):
    put("in", b"x")

    @worker.consumer("in", retry=Retry(attempts=1))
    def handle(message):
        raise OSError("the disk is full" * 10_000)

    burst(worker, qm)
    with qm.open("in;poison") as poison:
        (letter,) = poison.browse()
    assert len(str(letter.properties["failure_traceback"])) == 4000
    assert len(str(letter.properties["failure_error"])) == 1000


def test_nothing_that_may_quote_a_sealed_body_is_told(redis_server, put):
    keys = {"a": b"k" * 16}
    with mqredis.connect(redis_server.url, sealer=AesGcm(keys, "a")) as qm:
        qm.create_queue("sealed")
        with qm.open("sealed") as queue:
            queue.send(b"secret")
        worker = Worker()

        @worker.consumer("sealed", retry=Retry(attempts=1))
        def handle(message):
            raise ValueError(message.text)

        burst(worker, qm)
        with qm.open("sealed;poison") as poison:
            (letter,) = poison.browse()
        assert letter.body == b"secret"
        assert letter.properties["failure_error"] == letter.properties["failure_reason"] == "ValueError"
        assert "failure_traceback" not in letter.properties


@pytest.mark.parametrize("final", ["poison", "drop"])
def test_a_message_is_deleted_only_where_that_was_asked_for(qm, worker, put, final):
    put("in", b"x")

    @worker.consumer("in", retry=Retry(attempts=1, final=final))
    def handle(message):
        raise OSError("the disk is full")

    burst(worker, qm)
    counts = qm.statistics("in")
    assert (counts.poison_messages, counts.dropped) == ((1, 0) if final == "poison" else (0, 1))


@pytest.mark.parametrize("body", [b"nonsense", b'{"item": "tea"}', b"\xff"])
def test_what_is_not_valid_is_poison_with_the_reason(qm, worker, put, body):
    put("in", body, b'{"item": "tea", "amount": 1}')
    seen: list[Any] = []

    @worker.consumer("in")
    def handle(order: Order):
        seen.append(order)

    assert burst(worker, qm) == 1
    assert seen == [Order(item="tea", amount=1)]
    with qm.open("in;poison") as dead:
        (letter,) = dead.browse()
    assert letter.body == body
    assert str(letter.properties["failure_reason"]).startswith("not valid: ")
    assert letter.properties["failure_attempts"] == 1


def test_a_handler_may_reject(qm, worker, put):
    put("in", b"x")
    put("dead")

    @worker.consumer("in", dead_letter="dead")
    def handle(message):
        raise Reject("we do not deal with this")

    assert burst(worker, qm) == 0
    with qm.open("dead") as dead:
        assert next(iter(dead.browse())).properties["failure_reason"] == "we do not deal with this"
    assert (worker.consumers[0].rejected, worker.consumers[0].failed) == (1, 0)


@pytest.mark.parametrize("transactional", [False, True], ids=["locks", "transactions"])
@pytest.mark.parametrize("why", ["handler", "not valid", "retries"])
def test_a_message_may_be_rejected_by_the_rules_of_the_broker(qm, worker, transactional, why):
    qm.create_queue("in", transactional=transactional)
    qm.create_queue("letters", transactional=transactional)
    with qm.open("in") as queue, qm.transaction() as tx:
        journal = mqredis.Journal.DEAD_LETTER
        queue.send(
            b"x", dead_letter_queue="letters", journal=journal, transaction=tx if transactional else None
        )

    def handle(message):
        raise Reject("no\n  more \x01\x03 of these") if why == "handler" else OSError("the disk is full")

    handle.__annotations__["message"] = Order if why == "not valid" else mqredis.Message
    worker.consumer("in", retry=Retry(attempts=1, final="reject"))(handle)
    burst(worker, qm)
    assert qm.queue_info("in").messages == 0
    with qm.open("letters") as letters:
        (letter,) = drain(letters)
    told = {"handler": "no more \x01\x03 of these", "retries": "OSError: the disk is full"}
    assert str(letter.reason).startswith(f"receive_rejected: {told.get(why, 'not valid: ')}")
    assert qm.doctor().findings == ()


def test_a_handler_may_ask_for_another_time(qm, worker, put):
    put("in", b"x")
    tries: list[Any] = []

    @worker.consumer("in", retry=Retry(attempts=1))
    def handle(message):
        tries.append(message.delivery_count)
        if len(tries) == 1:
            raise RetryLater(1000)

    burst(worker, qm)
    qm.advance_clock(900)
    burst(worker, qm)
    assert tries == [1]
    qm.advance_clock(101)
    burst(worker, qm)
    assert tries == [1, 2], "to ask for another time is no attempt"
    assert qm.info().messages == 0


def test_a_message_that_kills_its_readers_becomes_poison(qm, worker, put, transactional):
    put("in", b"x")

    @worker.consumer("in", retry=Retry(attempts=3, delay=0))
    def handle(message):
        raise AssertionError("it was delivered too often")

    qm.create_queue("empty", transactional=transactional)
    qm.update_queue("in", retry=worker.consumers[0].policy(None))
    for name in ("in", "in;lapsed", "in;lapsed"):
        with qm.open(name) as queue:
            if transactional:
                queue.receive(timeout=0, transaction=qm.transaction(lease=1))
            else:
                queue.lock(timeout=0, lease=1)
            qm.advance_clock(2)
            qm.maintain()
    assert burst(worker, qm, errors="raise") == 0
    with qm.open("in;poison") as poison:
        (letter,) = poison.browse()
    assert letter.reason == "poison: the lease lapsed"
    assert letter.properties["failure_attempts"] == 3


def test_coroutines(qm, worker, put):
    put("in", b'{"item": "tea", "amount": 2}', b'{"item": "jam", "amount": 1}')
    put("out")

    @worker.consumer("in", concurrency=2)
    async def handle(order: Order, tx: AsyncUnit):
        await tx.send("out", order)

    assert burst(worker, qm, errors="raise") == 2
    assert sorted(bodies(qm, "out")) == [b'{"item":"jam","amount":1}', b'{"item":"tea","amount":2}']


def test_batches(qm, worker, put):
    put("in", *[str(n).encode() for n in range(100)])
    sizes: list[Any] = []

    @worker.consumer("in", batch=40)
    def handle(messages: list[mqredis.Message], tx: Unit):
        sizes.append(len(messages))

    assert burst(worker, qm) == 100
    assert sizes == [40, 40, 20]


def test_what_is_not_valid_in_a_batch_goes_alone(qm, worker, put):
    put("in", b'{"item": "tea", "amount": 1}', b"nonsense", b'{"item": "jam", "amount": 1}')
    seen: list[Any] = []

    @worker.consumer("in")
    def handle(orders: list[Order]):
        seen.extend(order.item for order in orders)

    assert burst(worker, qm) == 2
    assert seen == ["tea", "jam"]
    assert worker.consumers[0].rejected == 1
    assert qm.queue_info("in").messages == 0


def test_earlier_queues_come_first(qm, worker, put):
    put("low", b"l1", b"l2")
    put("high", b"h1")
    seen: list[Any] = []

    @worker.consumer("high", "low")
    def handle(message, tx: Unit):
        seen.append(message.body)
        if message.body == b"l1":
            tx.send("high", b"h2")

    assert burst(worker, qm) == 4
    assert seen == [b"h1", b"l1", b"h2", b"l2"]


def test_a_chain_is_followed_to_its_end(qm, worker, put):
    put("a", b"x")
    put("b")

    @worker.consumer("b")
    def last(message):
        pass

    @worker.consumer("a")
    def first(message, tx: Unit):
        tx.send("b", message.body)

    assert burst(worker, qm) == 2


def test_errors_can_be_raised(qm, worker, put):
    put("in", b"x")

    @worker.consumer("in")
    def handle(message):
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        burst(worker, qm, errors="raise")


def test_queues_can_be_created(qm, worker, transactional):
    @worker.consumer("new", dead_letter="new.dead", create={"transactional": transactional})
    def handle(message):
        pass

    burst(worker, qm)
    burst(worker, qm)
    assert qm.queue_info("new").transactional is qm.queue_info("new.dead").transactional is transactional


def test_bytes_and_text(qm, worker, put):
    put("b", b"\xff\x00")
    put("t", "ü".encode(), b"\xff")
    seen: list[Any] = []

    @worker.consumer("b")
    def raw(body: bytes):
        seen.append(body)

    @worker.consumer("t")
    def text(body: str):
        seen.append(body)

    assert burst(worker, qm) == 2
    assert set(seen) == {b"\xff\x00", "ü"}
    assert worker.consumers[1].rejected == 1


def test_a_reason_waits_in_the_transaction_for_its_commit(qm):
    for name in ("in", "letters"):
        qm.create_queue(name, transactional=True)
    with qm.open("in") as queue:
        journal = mqredis.Journal.DEAD_LETTER
        with qm.transaction() as tx:
            queue.send(b"x", dead_letter_queue="letters", journal=journal, transaction=tx)
        with qm.transaction() as tx:
            tx.reject(queue, queue.receive(0, transaction=tx), "two words")
            assert qm.doctor().findings == ()
    with qm.open("letters") as letters:
        assert drain(letters)[0].reason == "receive_rejected: two words"
