"""How a worker handles messages, tested in burst mode on a real server and on fakeredis."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import mqredis
from mqredis.sealing import AesGcm
from mqredis.testing import drain
from mqredis.worker import AsyncUnit, Reject, Retry, RetryLater, Unit, Worker, threads
from mqredis.worker.rate import Rate


class Order(BaseModel):
    item: str
    amount: int


@pytest.fixture(params=[False, True], ids=["locks", "transactions"])
def transactional(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def put(qm, transactional):
    """Return a function that creates a queue if it is missing and sends to it."""

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


def test_rate_of_a_consumer_holds_over_all_rounds_of_a_burst(qm, worker, put, monkeypatch):
    made: list[float] = []

    class Counted(Rate):
        def __init__(self, per_second: float) -> None:
            made.append(per_second)
            super().__init__(per_second)

    monkeypatch.setattr(threads, "Rate", Counted)
    put("q", b"1", b"2")
    worker.consumer("q", rate="1000/s")(lambda _: None)
    assert burst(worker, qm) == 2  # and a second round, which finds nothing
    assert made == [1000]


def test_messages_are_handled_in_order_and_removed(qm, worker, put):
    put("q", b"1", b"2", b"3")
    seen: list[Any] = []

    @worker.consumer("q")
    def handle(message):
        seen.append(message.body)

    assert burst(worker, qm) == 3
    assert seen == [b"1", b"2", b"3"]
    assert qm.queue_info("q").messages == 0


def test_message_sent_by_a_handler_arrives(qm, worker, put):
    put("in", b'{"item": "tea", "amount": 2}')
    put("out")

    @worker.consumer("in")
    def handle(order: Order, tx: Unit):
        tx.send("out", {"line": f"{order.amount} {order.item}"}, priority=5)

    assert burst(worker, qm) == 1
    assert bodies(qm, "out") == [b'{"line": "2 tea"}']


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_dict_with_a_number_that_json_lacks_is_not_sent(qm, worker, put, number):
    put("in", b"x")
    put("out")

    @worker.consumer("in", retry=Retry(attempts=1))
    def handle(message, tx: Unit):
        tx.send("out", {"x": number})

    assert burst(worker, qm) == 0
    assert bodies(qm, "out") == []
    with qm.open("in;poison") as poison:
        assert "not JSON compliant" in poison.peek(0).reason


def test_failing_handler_sends_nothing(qm, worker, put):
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
def test_message_that_always_fails_is_dead_lettered_with_its_error(qm, worker, put, dead_letter):
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
        (dead_letter_message,) = dead.browse()
    told = dict(dead_letter_message.properties)
    assert (dead_letter_message.body, dead_letter_message.label, told.pop("n")) == (b"x", "l", 1)
    assert dead_letter_message.reason == "poison: OSError: the disk is full"
    assert "in handle" in told.pop("failure_traceback")
    assert (
        dead_letter_message.arrived_at.timestamp()
        <= told.pop("failure_time")
        <= dead_letter_message.arrived_at.timestamp() + 3600
    )
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


def test_long_traceback_and_error_are_truncated(qm, worker, put):
    put("in", b"x")

    @worker.consumer("in", retry=Retry(attempts=1))
    def handle(message):
        raise OSError("the disk is full" * 10_000)

    burst(worker, qm)
    with qm.open("in;poison") as poison:
        (dead_letter_message,) = poison.browse()
    assert len(str(dead_letter_message.properties["failure_traceback"])) == 4000
    assert len(str(dead_letter_message.properties["failure_error"])) == 1000


def test_failure_of_a_sealed_message_records_only_the_type_of_the_error(redis_server, put):
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
            (dead_letter_message,) = poison.browse()
        assert dead_letter_message.body == b"secret"
        assert (
            dead_letter_message.properties["failure_error"]
            == dead_letter_message.properties["failure_reason"]
            == "ValueError"
        )
        assert "failure_traceback" not in dead_letter_message.properties


@pytest.mark.parametrize(
    "body, reason",
    [
        ('{"iban": "FR11"}', "not valid: value_error"),
        ("{}", "not valid: missing"),
        ("x", "not valid: json_invalid"),
    ],
)
def test_failure_of_a_sealed_body_that_is_not_valid_records_only_the_kind_of_the_fault(
    redis_server, body, reason
):
    class Payment(BaseModel):
        iban: str

        @field_validator("iban")
        @classmethod
        def check(cls, iban: str) -> str:
            raise ValueError(f"{iban} is not an IBAN")

    with mqredis.connect(redis_server.url, sealer=AesGcm({"a": b"k" * 16}, "a")) as qm:
        qm.create_queue("payments")
        with qm.open("payments") as queue:
            queue.send(body)
        worker = Worker()

        def handle(payment):
            raise AssertionError("not called")

        handle.__annotations__["payment"] = Payment
        worker.consumer("payments")(handle)
        burst(worker, qm)
        with qm.open("payments;poison") as poison:
            (dead_letter_message,) = poison.browse()
        assert dead_letter_message.reason == f"poison: {reason}"
        assert dead_letter_message.properties["failure_reason"] == reason


@pytest.mark.parametrize("final", ["poison", "drop"])
def test_message_that_fails_finally_is_deleted_only_by_final_drop(qm, worker, put, final):
    put("in", b"x")

    @worker.consumer("in", retry=Retry(attempts=1, final=final))
    def handle(message):
        raise OSError("the disk is full")

    burst(worker, qm)
    counts = qm.statistics("in")
    assert (counts.poison_messages, counts.dropped) == ((1, 0) if final == "poison" else (0, 1))


@pytest.mark.parametrize("body", [b"nonsense", b'{"item": "tea"}', b"\xff"])
def test_invalid_body_becomes_poison_with_the_reason(qm, worker, put, body):
    put("in", body, b'{"item": "tea", "amount": 1}')
    seen: list[Any] = []

    @worker.consumer("in")
    def handle(order: Order):
        seen.append(order)

    assert burst(worker, qm) == 1
    assert seen == [Order(item="tea", amount=1)]
    with qm.open("in;poison") as dead:
        (dead_letter_message,) = dead.browse()
    assert dead_letter_message.body == body
    assert str(dead_letter_message.properties["failure_reason"]).startswith("not valid: ")
    assert dead_letter_message.properties["failure_attempts"] == 1


def test_rejected_message_is_dead_lettered_with_the_reason(qm, worker, put):
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
def test_final_reject_sends_a_receive_rejected_dead_letter(qm, worker, transactional, why):
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
        (dead_letter_message,) = drain(letters)
    told = {"handler": "no more \x01\x03 of these", "retries": "OSError: the disk is full"}
    assert str(dead_letter_message.reason).startswith(f"receive_rejected: {told.get(why, 'not valid: ')}")
    assert qm.doctor().findings == ()


def test_retry_later_delays_the_message_without_counting_an_attempt(qm, worker, put):
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
    assert tries == [1, 2], "RetryLater does not count as an attempt"
    assert qm.info().messages == 0


def test_message_whose_lease_always_lapses_becomes_poison(qm, worker, put, transactional):
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
        (dead_letter_message,) = poison.browse()
    assert dead_letter_message.reason == "poison: the lease lapsed"
    assert dead_letter_message.properties["failure_attempts"] == 3


def test_coroutine_handlers_handle_and_send(qm, worker, put):
    put("in", b'{"item": "tea", "amount": 2}', b'{"item": "jam", "amount": 1}')
    put("out")

    @worker.consumer("in", concurrency=2)
    async def handle(order: Order, tx: AsyncUnit):
        await tx.send("out", order)

    assert burst(worker, qm, errors="raise") == 2
    assert sorted(bodies(qm, "out")) == [b'{"item":"jam","amount":1}', b'{"item":"tea","amount":2}']


def test_batch_handler_gets_up_to_batch_messages(qm, worker, put):
    put("in", *[str(n).encode() for n in range(100)])
    sizes: list[Any] = []

    @worker.consumer("in", batch=40)
    def handle(messages: list[mqredis.Message], tx: Unit):
        sizes.append(len(messages))

    assert burst(worker, qm) == 100
    assert sizes == [40, 40, 20]


def test_invalid_message_of_a_batch_is_rejected_alone(qm, worker, put):
    put("in", b'{"item": "tea", "amount": 1}', b"nonsense", b'{"item": "jam", "amount": 1}')
    seen: list[Any] = []

    @worker.consumer("in")
    def handle(orders: list[Order]):
        seen.extend(order.item for order in orders)

    assert burst(worker, qm) == 2
    assert seen == ["tea", "jam"]
    assert worker.consumers[0].rejected == 1
    assert qm.queue_info("in").messages == 0


def test_queues_named_first_are_read_first(qm, worker, put):
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


def test_burst_handles_messages_that_its_handlers_send(qm, worker, put):
    put("a", b"x")
    put("b")

    @worker.consumer("b")
    def last(message):
        pass

    @worker.consumer("a")
    def first(message, tx: Unit):
        tx.send("b", message.body)

    assert burst(worker, qm) == 2


def test_errors_raise_propagates_the_error_of_the_handler(qm, worker, put):
    put("in", b"x")

    @worker.consumer("in")
    def handle(message):
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        burst(worker, qm, errors="raise")


def test_create_option_creates_the_queue_and_its_dead_letter_queue(qm, worker, transactional):
    @worker.consumer("new", dead_letter="new.dead", create={"transactional": transactional})
    def handle(message):
        pass

    burst(worker, qm)
    burst(worker, qm)
    assert qm.queue_info("new").transactional is qm.queue_info("new.dead").transactional is transactional


def test_handler_annotations_select_bytes_or_text(qm, worker, put):
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


def test_reject_reason_is_kept_in_the_transaction_until_its_commit(qm):
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
