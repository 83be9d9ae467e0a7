"""Registration of consumers and schedules: options that are accepted or refused."""

from __future__ import annotations

import inspect
import threading
from functools import partial, update_wrapper
from typing import Any, List, get_args  # noqa: UP035

import pytest

import mqredis
import mqredis.asyncio
from mqredis.worker import Retry, RetryLater, Worker
from mqredis.worker.consumer import ConsumerOptions
from mqredis.worker.failed_attempts import _ENDS, attempt
from mqredis.worker.rate import rate_of


def handle(message):
    """A handler."""


def test_the_function_stays_what_it_is(worker: Worker):
    assert worker.consumer("q")(handle) is handle


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"batch": 257},
        {"batch": 2},
        {"lease": 0},
        {"time_limit": -1},
        {"max_hold": 0},
        {"max_hold": None},
        {"rate": "many"},
        {"rate": "0/s"},
        {"rate": 5},
        {"rate": ""},
        {"concurrency": "8"},
        {"batch": "2"},
        {"prefetch": 2.0},
        {"retry": 3},
        {"create": True},
        {"dead_letter": 3},
        {"dead_letter": "q"},
        {"name": 3},
    ],
    ids=str,
)
def test_invalid_options_are_refused(worker: Worker, options):
    with pytest.raises(mqredis.InvalidArgument):
        worker.consumer("q", **options)(handle)


def test_missing_queue_handler_argument_or_consumer_is_refused(worker: Worker):
    with pytest.raises(mqredis.InvalidArgument, match="must take"):
        worker.consumer("q")(lambda: None)
    with pytest.raises(mqredis.InvalidArgument, match="must take"):
        worker.consumer("q")(lambda _a, _b, _c: None)
    with pytest.raises(mqredis.InvalidArgument, match="must take"):
        worker.consumer("q")(lambda _a, *, _b: None)
    with pytest.raises(mqredis.InvalidArgument, match="queue"):
        worker.consumer()(handle)
    with pytest.raises(mqredis.InvalidArgument, match="no consumers"):
        worker.run()


def test_decorators_without_parentheses_are_refused(worker: Worker):
    with pytest.raises(mqredis.InvalidArgument, match=r'write @worker.consumer\("queue"\)'):
        worker.consumer(handle)  # type: ignore[arg-type]
    with pytest.raises(mqredis.InvalidArgument, match=r'write @worker.cron\("0 3 \* \* \*"\)'):
        worker.cron(handle)  # type: ignore[arg-type]


def test_list_of_queues_is_refused(worker: Worker):
    with pytest.raises(mqredis.InvalidArgument, match=r'write several queues as consumer\("a", "b"\)'):
        worker.consumer(["a", "b"])  # type: ignore[arg-type]


def test_misspelt_option_is_refused_before_a_consumer_is_registered(worker: Worker):
    with pytest.raises(mqredis.InvalidArgument, match="no option 'prefech': did you mean 'prefetch'"):
        worker.consumer("q", prefech=3)  # type: ignore[call-arg]
    with pytest.raises(mqredis.InvalidArgument, match="no option 'leese'"):
        worker.cron(60, leese=3)(handle)  # type: ignore[call-arg]
    assert not worker.consumers


def test_handler_that_is_not_a_function_is_refused(worker: Worker):
    with pytest.raises(mqredis.InvalidArgument, match="function"):
        worker.consumer("q")(3)  # type: ignore[type-var]


class Called:
    def __call__(self, message):
        """An object that can be called is no function."""


def test_handler_that_a_decorator_has_made_is_accepted(worker: Worker):
    worker.consumer("q")(update_wrapper(Called(), handle))
    assert worker.consumers[0].name == "tests.worker.test_register.handle"


def unknown_type(message: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Its annotation names nothing."""


def no_item_type(messages: List) -> None:  # type: ignore[type-arg]  # noqa: UP006
    """A list of what?"""


def no_schema(message: threading.Lock) -> None:
    """pydantic cannot validate it."""


@pytest.mark.parametrize(
    "handler",
    [Called(), partial(handle), unknown_type, no_item_type, no_schema],
    ids=["called", "partial", "unknown", "list", "no schema"],
)
def test_handler_whose_signature_says_nothing_is_refused(worker: Worker, handler):
    with pytest.raises(mqredis.InvalidArgument, match="handler"):
        worker.consumer("q")(handler)
    assert not worker.consumers


@pytest.mark.parametrize("handler", [unknown_type, no_schema], ids=["unknown", "no schema"])
def test_error_of_an_annotation_names_the_handler_and_what_may_be_annotated(worker: Worker, handler):
    with pytest.raises(mqredis.InvalidArgument) as caught:
        worker.consumer("q")(handler)
    text = str(caught.value)
    assert f"of the handler tests.worker.test_register.{handler.__name__} cannot be used" in text
    assert "it may be mqredis.Message, str, bytes, or what pydantic validates" in text
    assert "\n" not in text


@pytest.mark.parametrize("when, options", [("nonsense", {}), ("* * * * *", {"concurrency": 0})])
def test_cron_that_is_refused_registers_nothing(worker: Worker, when, options):
    with pytest.raises(mqredis.InvalidArgument):
        worker.cron(when, **options)(handle)
    assert (worker.consumers, worker.schedules) == ([], [])


@pytest.mark.parametrize(
    "options",
    [
        {"shutdown_seconds": "5"},
        {"shutdown_seconds": -1},
        {"shutdown_seconds": float("nan")},
        {"metrics": "host"},
    ],
)
def test_invalid_options_of_a_worker_are_refused(options):
    with pytest.raises(mqredis.InvalidArgument):
        Worker(**options)


def test_invalid_retry_later_delay_is_refused():
    for wrong in (-1, "1", float("nan")):
        with pytest.raises(mqredis.InvalidArgument, match="RetryLater"):
            RetryLater(wrong)  # type: ignore[arg-type]


def test_mix_of_transactional_and_other_queues_is_refused(qm, worker: Worker):
    qm.create_queue("plain")
    qm.create_queue("tx", transactional=True)
    worker.consumer("plain", "tx")(handle)
    with pytest.raises(mqredis.InvalidArgument, match="all transactional or none"):
        worker.run(burst=True, manager=qm, signals=False)


def test_topic_is_refused(qm, worker: Worker):
    worker.consumer("news", create={"topic": True})(handle)
    with pytest.raises(
        mqredis.InvalidArgument, match="'news' is a topic, which stores nothing: subscribe a queue"
    ):
        worker.run(burst=True, manager=qm, signals=False)


def test_send_from_a_transaction_to_another_queue_says_what_to_do(qm, worker: Worker):
    qm.create_queue("in", transactional=True)
    qm.create_queue("plain")
    with qm.open("in") as queue, qm.transaction() as tx:
        queue.send(b"x", transaction=tx)
    worker.consumer("in")(lambda _message, tx: tx.send("plain", b"y"))
    told = "queue 'plain' is not transactional, as that of the handled message is: .*transactional=True"
    with pytest.raises(mqredis.TransactionUsage, match=told):
        worker.run(burst=True, manager=qm, signals=False, errors="raise")


def test_missing_queue_error_says_how_to_create_it(qm, worker: Worker):
    worker.consumer("nowhere;poison")(handle)
    said = r"queue 'nowhere' does not exist: create it with create={} .* `mqredis queue create nowhere`"
    with pytest.raises(mqredis.QueueNotFound, match=said):
        worker.run(burst=True, manager=qm, signals=False)


def test_empty_subqueue_may_be_consumed(qm, worker: Worker):
    qm.create_queue("q")
    worker.consumer("q;poison")(handle)
    assert worker.run(burst=True, manager=qm, signals=False) == 0


def test_missing_dead_letter_queue_is_an_error(qm, worker: Worker):
    qm.create_queue("q")
    worker.consumer("q", dead_letter="nowhere")(handle)
    with pytest.raises(mqredis.QueueNotFound, match="queue 'nowhere' does not exist: create it"):
        worker.run(burst=True, manager=qm, signals=False)


async def test_manager_of_asyncio_is_refused(worker: Worker):
    worker.consumer("q", create={})(handle)
    manager: Any
    async with mqredis.asyncio.connect("memory://worker") as manager:
        for use in (lambda: worker.run(manager=manager), worker.background(manager).__enter__):
            with pytest.raises(mqredis.InvalidArgument, match="which is blocking, not mqredis"):
                use()


def test_running_worker_refuses_a_second_run(qm, worker: Worker):
    qm.create_queue("q")
    done = threading.Event()
    worker.consumer("q")(lambda _message: done.set())
    with worker.background(qm):
        with pytest.raises(mqredis.InvalidArgument, match="running already"):
            worker.run(burst=True, manager=qm, signals=False)
        with pytest.raises(mqredis.InvalidArgument, match="running already"), worker.background(qm):
            pass
        with qm.open("q") as queue:
            queue.send(b"the first run goes on")
        assert done.wait(60)
    assert worker.run(burst=True, manager=qm, signals=False) == 0


def test_retry_is_converted_to_a_policy_and_validated():
    policy = Retry(attempts=7, delay=1, factor=3, max_delay=20, jitter=0).policy()
    assert (policy.attempts, policy.immediate, policy.delay, policy.factor) == (7, 0, 1, 3)
    assert (policy.max_delay, policy.final, policy.isolate) == (20, "poison", True)
    assert Retry(attempts=None).policy().attempts > 10**6
    assert Retry(final="drop").policy("dead").dead_letter_queue == "dead"
    for wrong in (
        {"factor": 0.5},
        {"attempts": -1},
        {"attempts": 0},
        {"attempts": True},
        {"attempts": "5"},
        {"delay": -1},
        {"delay": "1"},
        {"delay": None},
        {"jitter": True},
        {"final": "nowhere"},
        {"max_delay": 1e99},
    ):
        with pytest.raises(mqredis.InvalidArgument, match="Retry"):
            Retry(**wrong)


def test_policy_of_the_queue_is_kept_unless_the_consumer_sets_one(qm, worker):
    own = mqredis.RetryPolicy(immediate=3, delay=7)
    for name in ("kept", "chosen", "none"):
        qm.create_queue(name, retry=None if name == "none" else own)
    worker.consumer("kept", "none")(handle)
    worker.consumer("chosen", retry=Retry(attempts=2))(handle)
    worker.run(burst=True, manager=qm, signals=False)
    assert qm.queue_info("kept").retry == own.model_copy(update={"isolate": True})
    assert qm.queue_info("chosen").retry == Retry(attempts=2).policy()
    assert qm.queue_info("none").retry == Retry().policy()


def test_dead_letter_changes_only_the_end_of_a_policy_that_is_kept(qm, worker):
    own = mqredis.RetryPolicy(immediate=3, delay=7, final="drop")
    qm.create_queue("q", retry=own)
    qm.create_queue("dead")
    worker.consumer("q", dead_letter="dead")(handle)
    worker.run(burst=True, manager=qm, signals=False)
    end = {"final": "dead_letter", "dead_letter_queue": "dead"}
    assert qm.queue_info("q").retry == own.model_copy(update={**end, "isolate": True})


@pytest.mark.parametrize("dead_letter", [None, "dead"])
@pytest.mark.parametrize("cycles, isolates", [(0, False), (1, True)])
def test_policy_that_keeps_the_order_of_groups_is_not_changed(qm, worker, cycles, isolates, dead_letter):
    own = mqredis.RetryPolicy(immediate=3, cycles=cycles)
    create = {"group_exclusive": True, "retry": own}
    worker.consumer("groups", create=create, dead_letter=dead_letter)(handle)
    worker.run(burst=True, manager=qm, signals=False)
    end = {"final": "dead_letter", "dead_letter_queue": "dead"} if dead_letter else {}
    assert qm.queue_info("groups").retry == own.model_copy(update={**end, "isolate": isolates})


def test_second_start_of_a_worker_says_nothing_about_the_policy_it_has_created(qm, worker, caplog):
    worker.consumer("q", create={"retry": mqredis.RetryPolicy(immediate=3)})(handle)
    for _ in range(2):
        worker.run(burst=True, manager=qm, signals=False)
    assert "differ" not in caplog.text


@pytest.mark.parametrize(
    "policy, attempts, said",
    [
        ({"immediate": 1, "cycles": 2, "delay": 3}, 1, "attempt 1 of 6: the next try is at once"),
        ({"immediate": 1, "cycles": 2, "delay": 3}, 4, "attempt 4 of 6: the next try is in 6 s"),
        ({"immediate": 1, "cycles": 2, "delay": 3}, 6, "attempt 6 of 6: it goes to ;poison"),
        ({"immediate": 0, "final": "drop"}, 1, "attempt 1 of 1: it is deleted"),
        ({"immediate": 0, "cycles": 10**9, "max_delay": 60}, 90, "attempt 90: the next try is in 60 s"),
    ],
)
def test_failure_text_names_the_attempt_and_what_follows(qm, worker, policy, attempts, said):
    qm.create_queue("q", retry=mqredis.RetryPolicy(**policy))
    worker.consumer("q")(handle)
    worker.run(burst=True, manager=qm, signals=False)
    with qm.open("q") as queue:
        queue.send(b"a")
        message = queue.peek(0).replace(delivery_count=attempts + 3, attempts=attempts)
    (consumer,) = worker.consumers
    assert attempt(consumer, message) == said
    assert attempt(consumer, message.replace(queue="q;lapsed")) == said


def test_rates_are_converted_to_messages_per_second():
    assert [rate_of(text) for text in ("10/s", "120/m", "3600/h")] == [10, 2, 1]


def _generator(message):
    yield message


async def _async_generator(message):
    yield message


@pytest.mark.parametrize("handler", [_generator, _async_generator])
def test_handler_with_a_yield_is_refused(worker: Worker, handler):
    with pytest.raises(mqredis.InvalidArgument, match="`yield`"):
        worker.consumer("q")(handler)


@pytest.mark.parametrize("handler", [_generator, _async_generator])
def test_generator_returned_by_a_plain_function_is_a_failure(qm, worker: Worker, handler, caplog):
    @worker.consumer("q", retry=Retry(attempts=1), name="h")
    def plain(message):
        return handler(message)

    qm.create_queue("q")
    with qm.open("q") as queue:
        queue.send(b"x")
    assert worker.run(burst=True, manager=qm, signals=False) == 0
    assert "h returned a generator, which was not run" in caplog.text
    with qm.open("q;poison") as poison:
        assert poison.receive(0).body == b"x"


def test_coroutine_returned_by_a_plain_function_is_a_failure(qm, caplog):
    handled: list[bytes] = []

    async def later(message):
        handled.append(message.body)

    qm.create_queue("orders")
    with qm.open("orders") as queue:
        queue.send(b"x")
    worker = Worker(heartbeat_seconds=None)

    @worker.consumer("orders", retry=Retry(attempts=1), name="h")
    def plain(message):
        return later(message)

    worker.run(burst=True, manager=qm, signals=False)
    assert handled == []
    assert "h is a plain function that returned a coroutine, which was not run" in caplog.text
    with qm.open("orders;poison") as poison:
        assert poison.receive(0).body == b"x"


@pytest.mark.parametrize(
    "function, option, meant",
    [
        (Worker, "shutdown_second", "shutdown_seconds"),
        (Retry, "atempts", "attempts"),
        (mqredis.connect, "manger", "manager"),
        (mqredis.asyncio.connect, "manger", "manager"),
        (Worker().consumer, "retries", "retry"),
    ],
)
def test_misspelt_option_error_suggests_the_correct_name(function, option, meant):
    with pytest.raises(mqredis.InvalidArgument, match=f"has no option '{option}': did you mean '{meant}'"):
        function(**{option: 1})


@pytest.mark.parametrize(
    "function", [Worker, Retry, Worker.consumer, mqredis.connect, mqredis.asyncio.connect]
)
def test_signatures_show_the_options(function):
    assert {"settings", "attempts", "concurrency"} & set(inspect.signature(function).parameters)


def test_options_of_consumers_are_declared_alike():
    given = inspect.signature(Worker.consumer).parameters.values()
    options = {each.name for each in given if each.kind is each.KEYWORD_ONLY}
    assert options == {*ConsumerOptions.__annotations__, "name"}


def test_every_end_of_a_policy_has_a_text_for_the_log():
    assert set(_ENDS) == set(get_args(mqredis.RetryPolicy.model_fields["final"].annotation))


def test_counts_of_two_threads_at_the_same_time_are_added(worker, monkeypatch):
    worker.consumer("q")(handle)
    (consumer,) = worker.consumers
    mutex, second_waits_or_ended = consumer._counting, threading.Event()

    class Mutex:
        def __enter__(self) -> None:
            if threading.current_thread() is second:
                second_waits_or_ended.set()
            mutex.acquire()

        def __exit__(self, *_: object) -> None:
            mutex.release()

    class Interrupted(int):
        """The other thread runs between the read of the counter and its write."""

        def __add__(self, more: int) -> int:
            if threading.current_thread() is not second:
                second.start()
                assert second_waits_or_ended.wait(30)
            return int(self) + more

    def count_in_second() -> None:
        consumer.count(handled=2)
        second_waits_or_ended.set()

    monkeypatch.setattr(consumer, "_counting", Mutex())
    consumer.handled = Interrupted(0)
    second = threading.Thread(target=count_in_second)
    consumer.count(handled=1)
    second.join(30)
    assert consumer.handled == 3
