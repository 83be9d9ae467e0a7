"""Every action, over ASGI: what its form shows, what it does, and that it does it once."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from mqredis import Journal, LockLost, Outgoing, RetryPolicy, TransactionSequence
from mqredis.asyncio import QueueManager
from mqredis.commands.address import Address
from mqredis.commands.claims import Order
from mqredis.console import Visitor, app, everyone
from mqredis.console.actions import sending
from mqredis.keys import DEAD_LETTER
from mqredis.models import StoredMessage
from mqredis.models.lookup_ids import hex_id
from mqredis.operations import pipelines
from tests.console.browser import Browser
from tests.console.test_pages import fail, fill


async def ready(manager: QueueManager, name: str = "orders") -> int:
    return (await manager.queue_info(name)).ready


async def test_send_form_sends_a_message(browser: Browser, manager: QueueManager) -> None:
    page = await browser.act(
        "send", queue="orders", body="hello", label="test", priority="6", properties='{"region": "EU"}'
    )
    assert "was sent to orders" in page.text
    async with await manager.open("orders") as queue:
        message = await queue.receive(timeout=0)
    assert (message.text, message.label, message.priority) == ("hello", "test", 6)
    assert message.properties == {"region": "EU"}


async def test_send_form_sends_to_a_transactional_queue(browser: Browser, manager: QueueManager) -> None:
    await manager.create_queue("ledger", transactional=True)
    await browser.act("send", queue="ledger", body="x")
    assert await ready(manager, "ledger") == 1


@pytest.mark.parametrize(
    "fields, text",
    [
        ({"priority": "9"}, "priority"),
        ({"priority": "x"}, "is not a whole number"),
        ({"properties": "[1]"}, "a JSON object is expected"),
        ({"properties": "{"}, "this is not JSON"),
        ({"delay": "soon"}, "is not a number of seconds"),
        ({"delay": "nan"}, "is not a number of seconds"),
    ],
)
async def test_invalid_message_is_refused_and_the_form_kept(
    browser: Browser, manager: QueueManager, fields: dict[str, str], text: str
) -> None:
    page = await browser.act("send", 400, queue="orders", body="keep me", **fields)
    assert text in page.text
    assert "keep me" in page.html
    assert await ready(manager) == 0


async def test_form_submitted_twice_acts_once(browser: Browser, manager: QueueManager) -> None:
    form = await browser.get("/m/main/act/send", queue="orders")
    for _ in range(2):
        page = await browser.post("/m/main/act/send", {**form.fields, "body": "once"})
        assert "was sent to orders" in page.text
    assert await ready(manager) == 1


async def test_purge_shows_the_count_and_requires_the_queue_name(
    browser: Browser, manager: QueueManager
) -> None:
    await fill(manager, [Outgoing("eu", properties={"region": "EU"})] * 3 + ["other"])
    form = await browser.get("/m/main/act/purge", queue="orders", selector="region = 'EU'")
    assert "This affects 3 messages of orders" in form.text
    for typed in ("", "order"):
        page = await browser.post("/m/main/act/purge", {**form.fields, "confirm": typed}, 400)
        assert "type the queue's name" in page.text
    assert await ready(manager) == 4
    again = await browser.post("/m/main/act/purge", {**page.fields, "selector": "", "check": "1"})
    assert "This affects 4 messages of orders" in again.text
    page = await browser.post("/m/main/act/purge", {**form.fields, "confirm": "orders"})
    assert "3 messages of orders moved to the trash" in page.text
    assert await ready(manager) == 1
    page = await browser.act("restore", queue="orders")
    assert "3 messages of orders restored" in page.text
    await browser.post("/m/main/act/purge", {**page.fields, **again.fields, "trash": "", "confirm": "orders"})
    assert await ready(manager) == 0


async def test_dead_letters_are_purged_without_a_trash(browser: Browser, manager: QueueManager) -> None:
    late = Outgoing("late", journal=Journal.DEAD_LETTER, time_to_be_received=0)
    await fill(manager, [late, late])
    form = await browser.get("/m/main/act/purge", queue=DEAD_LETTER)
    assert "This affects 2 messages" in form.text
    page = await browser.post(
        "/m/main/act/purge", {**form.fields, "trash": "on", "confirm": DEAD_LETTER}, 400
    )
    assert "not kept in the trash" in page.text
    page = await browser.act("purge", queue=DEAD_LETTER, confirm=DEAD_LETTER)
    assert "2 messages of system$;deadletter removed" in page.text


async def test_delayed_messages_are_run_rescheduled_and_cancelled(
    browser: Browser, manager: QueueManager
) -> None:
    late = [Outgoing(f"late {n}", delay=3600.0 + n, properties={"n": n}) for n in range(4)]
    ids = await fill(manager, late)
    page = await browser.get("/m/main/scheduled")
    assert "4 messages that wait" in page.text
    assert "in 1 h" in page.text
    page = await browser.get("/m/main/scheduled", queue="orders", selector="n = 2")
    assert re.findall("0x[0-9a-f]{16}", page.text) == [hex_id(ids[2])]
    page = await browser.get("/m/main/message", queue="orders", id=hex_id(ids[2]))
    assert "late 2" in page.text
    page = await browser.act("run-now", queue="orders", id=hex_id(ids[0]))
    assert "1 message of orders made available" in page.text
    page = await browser.act("reschedule", queue="orders", id=hex_id(ids[1]), delay="60")
    assert "1 message of orders rescheduled to 1 min from now" in page.text
    form = await browser.get("/m/main/act/cancel", queue="orders", selector="n >= 2")
    assert "This affects 2 messages of orders" in form.text
    page = await browser.post("/m/main/act/cancel", {**form.fields, "confirm": "orders"})
    assert "2 messages of orders cancelled" in page.text
    info = await manager.queue_info("orders")
    assert (info.ready, info.delayed) == (1, 1)
    for delay, wrong in (
        ("", "delay is missing"),
        ("nan", "is not a number of seconds"),
        ("inf", "is not a number"),
    ):
        page = await browser.act("reschedule", 400, queue="orders", id=hex_id(ids[1]), delay=delay)
        assert wrong in page.text


async def test_released_lock_is_lost_for_its_reader(browser: Browser, manager: QueueManager) -> None:
    (number,) = await fill(manager, ["a"])
    async with await manager.open("orders") as queue:
        lock = await queue.lock(timeout=0)
        page = await browser.act("release", queue="orders", id=hex_id(number))
        assert f"The lock of message {hex_id(number)} of orders was ended" in page.text
        assert await ready(manager) == 1
        with pytest.raises(LockLost):
            await lock.commit()
    assert (
        "not locked any more"
        in (await browser.get("/m/main/act/release", 400, queue="orders", id=hex_id(number))).text
    )


async def test_aborted_transaction_cannot_be_committed(browser: Browser, manager: QueueManager) -> None:
    await manager.create_queue("ledger", transactional=True)
    unit = await manager.transaction()
    async with await manager.open("ledger") as ledger:
        await ledger.send("x", transaction=unit)
        page = await browser.get("/m/main/in-flight")
        address = next(each for each in page.addresses if "/act/abort" in each)
        form = await browser.get(address)
        assert "with 1 operation" in form.text
        page = await browser.post("/m/main/act/abort", form.fields)
        assert "was aborted" in page.text
        with pytest.raises(TransactionSequence):
            await unit.commit()
    assert (await manager.queue_info("ledger")).messages == 0


async def test_message_in_a_transaction_has_the_action_that_aborts_it(
    browser: Browser, manager: QueueManager
) -> None:
    await manager.create_queue("ledger", transactional=True)
    async with await manager.open("ledger") as ledger:
        async with await manager.transaction() as sending:
            for body in "ab":
                await ledger.send(body, transaction=sending)
        unit = await manager.transaction()
        numbers = [(await ledger.receive(0, transaction=unit)).lookup_id for _ in range(2)]
        number = hex_id(numbers[0])
        for action in ("release", "reject"):
            page = await browser.get(f"/m/main/act/{action}", 400, queue="ledger", id=number)
            assert "holds the message: abort the transaction, which undoes all that it has done" in page.text
            assert "This ends" not in page.text
            assert "This rejects" not in page.text
        page = await browser.get("/m/main/message", queue="ledger", id=number)
        (address,) = (each for each in page.addresses if "/act/" in each)
        form = await browser.get(address)
        assert "with 2 operations: " in form.text
        assert "what it received is back in its queue. Its client is refused" in form.text
        await browser.post("/m/main/act/abort", form.fields)
        assert await ready(manager, "ledger") == 2
        with pytest.raises(TransactionSequence):
            await unit.commit()


async def test_claimed_message_has_no_action_on_its_lock(browser: Browser, manager: QueueManager) -> None:
    (number,) = await fill(manager, ["a"])
    generation = (await manager.run(pipelines.look(manager.context, "orders"))).generation
    address = Address(manager.context.keys, "orders", generation)
    await manager.run(pipelines.claim(address, "lake", "first", 7, Order(20), True))
    page = await browser.get("/m/main/message", queue="orders", id=hex_id(number))
    assert not [each for each in page.addresses if "/act/" in each]
    for action in ("release", "reject"):
        page = await browser.get(f"/m/main/act/{action}", 400, queue="orders", id=hex_id(number))
        assert "mqredis.spark.release gives all of them back" in page.text


async def test_message_is_moved_and_deleted_once(browser: Browser, manager: QueueManager) -> None:
    first, second = await fill(manager, ["a", "b"])
    page = await browser.act("move", queue="orders", id=hex_id(first), target="orders;later")
    assert "1 message of orders moved to orders;later" in page.text
    form = await browser.get("/m/main/act/delete", queue="orders", id=hex_id(second))
    for _ in range(2):
        page = await browser.post("/m/main/act/delete", {**form.fields, "confirm": "orders"})
        assert "1 message of orders moved to the trash" in page.text
    assert await ready(manager) == 0
    assert await ready(manager, "orders;later") == 1


async def test_deletion_without_a_message_deletes_nothing(browser: Browser, manager: QueueManager) -> None:
    (number,) = await fill(manager, ["a"])
    path = "/m/main/act/delete"
    form = await browser.get(path, 200, queue="orders", id=hex_id(number))
    for chosen in ({"id": ""}, {"id": "", "selector": "TRUE"}):
        shown = await browser.get(path, 400, queue="orders", **chosen)
        assert ("id is missing" in shown.text, "This affects" in shown.text) == (True, False)
        page = await browser.post(path, {**form.fields, "confirm": "orders", **chosen}, 400)
        assert "id is missing" in page.text
        assert await ready(manager) == 1


async def test_redrive_returns_failed_messages_to_the_queue(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", retry=RetryPolicy(immediate=0))
    await fill(manager, ["a"])
    await fail(manager, "orders")
    page = await browser.act("redrive", queue="orders;poison")
    assert "1 message of orders;poison put back" in page.text
    assert await ready(manager) == 1


async def test_failed_message_is_edited_and_sent_again(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", retry=RetryPolicy(immediate=0))
    await fill(manager, [Outgoing("wrong", label="order", priority=5, properties={"n": 7})])
    await fail(manager, "orders")
    async with await manager.open("orders;poison") as poison:
        number = (await poison.peek(timeout=0)).lookup_id
    form = await browser.get("/m/main/act/send-again", queue="orders;poison", id=hex_id(number))
    assert ">\nwrong</textarea>" in form.html
    assert (form.fields["to"], form.fields["label"], form.fields["priority"]) == ("orders", "order", "5")
    page = await browser.post(
        "/m/main/act/send-again", {**form.fields, "body": "right", "properties": '{"n": 8}'}
    )
    assert "was deleted from orders;poison" in page.text
    async with await manager.open("orders") as queue:
        message = await queue.receive(timeout=0)
    assert (message.text, message.label, message.properties) == ("right", "order", {"n": 8})
    assert "Nothing has failed" in (await browser.get("/m/main/failures")).text


@pytest.mark.parametrize("to", ["orders", "ledger", "news"])
async def test_failed_message_is_sent_again_by_one_of_two_operators(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    await manager.create_queue("ledger", transactional=True)
    await manager.create_queue("news", topic=True)
    await manager.update_queue("orders", retry=RetryPolicy(immediate=0))
    await fill(manager, ["wrong"])
    await fail(manager, "orders")
    async with await manager.open("orders;poison") as poison:
        number = (await poison.peek(timeout=0)).lookup_id
    check, both = sending._failed, asyncio.Barrier(2)

    async def check_together(*given: Any) -> StoredMessage:
        found = await check(*given)
        await both.wait()
        return found

    monkeypatch.setattr(sending, "_failed", check_together)
    form = {"queue": "orders;poison", "id": hex_id(number), "to": to, "body": "right"}
    outcomes = await asyncio.gather(
        *(
            sending._send_again(manager, {**form, "operator": name, "token": f"form of {name}"})
            for name in ("ann", "bob")
        ),
        return_exceptions=True,
    )
    texts = sorted(str(outcome) for outcome in outcomes)
    assert "was deleted from orders;poison" in texts[0]
    assert "nothing was sent" in texts[1]
    if to != "news":  # that topic has no subscribers
        assert await ready(manager, to) == 1
    assert await ready(manager, "orders;poison") == 0


async def test_sends_to_a_queue_are_inhibited(browser: Browser, manager: QueueManager) -> None:
    page = await browser.act("inhibit", queue="orders", put_inhibited="on")
    assert "orders: sends are refused, reads are accepted" in page.text
    assert (await manager.queue_info("orders")).put_inhibited
    page = await browser.act("send", 400, queue="orders", body="x")
    assert "Sending to this queue is switched off" in page.text or "inhibit" in page.text.lower()
    assert "failed" in (await browser.get("/m/main/actions")).text


async def test_limits_are_shown_and_changed(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", quota_messages=10)
    form = await browser.get("/m/main/act/limits", queue="orders")
    assert form.fields["quota_messages"] == "10"
    changes = {"quota_messages": "", "quota_bytes": "5,000", "failed_time_to_live": "86400"}
    page = await browser.post("/m/main/act/limits", {**form.fields, **changes})
    info = await manager.queue_info("orders")
    assert (info.quota_messages, info.quota_bytes, info.failed_time_to_live) == (None, 5000, 86400)
    assert "Failed messages are kept for 1 d" in page.text
    assert "The limits of orders are now: quota messages no limit, quota bytes 5,000" in page.text
    form = await browser.get("/m/main/act/limits", queue="orders")
    assert form.fields["failed_time_to_live"] == "86400"


async def test_queues_and_subscriptions_are_created_and_deleted(
    browser: Browser, manager: QueueManager
) -> None:
    await browser.act("create-queue", queue="news", topic="on", label="All news")
    assert (await manager.queue_info("news")).topic
    await browser.act("subscribe", topic="news", queue="orders", selector="region = 'EU'")
    assert [each.selector for each in await manager.subscriptions("news")] == ["region = 'EU'"]
    form = await browser.get("/m/main/act/unsubscribe", topic="news", queue="orders")
    await browser.post("/m/main/act/unsubscribe", {**form.fields, "confirm": "orders"})
    assert await manager.subscriptions("news") == []
    await browser.act("delete-queue", queue="news", confirm="news")
    assert "news" not in [info.name for info in await manager.queues()]


async def test_manager_quota_throttle_and_repair(browser: Browser, manager: QueueManager) -> None:
    await browser.act("quota", messages="1000", bytes="")
    await browser.act("throttle", throttled="on")
    info = await manager.info()
    assert (info.quota_messages, info.throttled) == (1000, True)
    form = await browser.get("/m/main/act/throttle")
    assert form.fields["throttled"] == "on"
    fields = {name: value for name, value in form.fields.items() if name != "throttled"}
    page = await browser.act("send", 400, queue="orders", body="keep me")
    assert (
        "takes no message for queue 'orders': if info() shows that it is throttled, run mqredis" in page.text
    )
    assert "keep me" in page.html
    # The log of actions is a queue, too; it takes entries nevertheless.
    await browser.post("/m/main/act/throttle", fields)
    assert not (await manager.info()).throttled
    assert (
        "127.0.0.1, throttle: Sends to all queues are accepted. done"
        in (await browser.get("/m/main/actions")).text
    )
    assert [finding for finding in (await manager.doctor()).everything if finding.repairable] == []
    assert "0 findings repaired" in (await browser.act("repair")).text


async def test_log_names_the_actor_and_the_action(manager: QueueManager) -> None:
    browser = Browser(app({"main": manager}, access=lambda _: Visitor("ann", "all")))
    await browser.act("send", queue="orders", body="x")
    await browser.act("purge", queue="orders", confirm="orders")
    page = await browser.get("/m/main/actions")
    purged = "ann moved 1 available message of orders to the trash, to be kept there for 1 d. done"
    assert purged in page.text
    assert "ann, send: Message" in page.text
    await manager.operator("bob").delete("orders;trash")
    page = await browser.get("/m/main/actions")
    assert page.text.index("bob deleted 1 message of orders;trash. done") < page.text.index(purged)
    assert "started" not in page.text
    assert [info.name for info in await manager.queues() if "log" in info.name] == []
    await browser.close()


async def test_unfinished_action_is_shown_and_not_repeated(browser: Browser, manager: QueueManager) -> None:
    form = await browser.get("/m/main/act/send", queue="orders")
    operator = manager.operator("127.0.0.1")
    await operator.begin("send", "orders", token=form.fields["token"], details={"label": "a"})
    assert "127.0.0.1 began send on orders (label a). started" in (await browser.get("/m/main/actions")).text
    page = await browser.post("/m/main/act/send", {**form.fields, "body": "x"})
    assert "The action has begun" in page.text
    assert await ready(manager) == 0


async def test_form_submitted_to_two_processes_acts_once(manager: QueueManager) -> None:
    first, second = (
        Browser(app({"main": manager}, access=everyone, secret=b"shared by both")) for _ in range(2)
    )
    for action, fields in (("send", {"body": "once"}), ("purge", {"confirm": "orders"})):
        form = await first.get(f"/m/main/act/{action}", queue="orders")
        second.client.cookies = first.client.cookies
        pages = [
            await each.post(f"/m/main/act/{action}", {**form.fields, **fields}) for each in (first, second)
        ]
        notices = [re.findall(r'<p class="notice done"[^>]*>\s*(.*?)\s*</p>', page.html) for page in pages]
        assert notices[0] == notices[1] != []
    assert (await manager.queue_info("orders;trash")).messages == 1
    await first.close()
    await second.close()


async def test_form_that_failed_fails_again(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", put_inhibited=True)
    form = await browser.get("/m/main/act/send", queue="orders")
    fields = {**form.fields, "body": "x"}
    await browser.post("/m/main/act/send", fields, 400)
    await manager.update_queue("orders", put_inhibited=False)
    assert "PutInhibited" in (await browser.post("/m/main/act/send", fields, 400)).text
    assert await ready(manager) == 0


async def test_form_that_creates_a_queue_can_be_cancelled(browser: Browser) -> None:
    form = await browser.get("/m/main/act/create-queue")
    cancel = re.search(r'href="([^"]*)">Cancel<', form.html)
    assert cancel is not None
    assert "Overview" in (await browser.get(cancel[1])).text


async def test_queue_shows_the_rest_of_a_retry_policy_only_if_it_has_one(
    browser: Browser, manager: QueueManager
) -> None:
    for cycles, shown in ((0, False), (1, True)):
        await manager.create_queue(f"retry{cycles}", retry=RetryPolicy(immediate=0, cycles=cycles, delay=10))
        page = await browser.get("/m/main/queue", name=f"retry{cycles}")
        assert ("rest of 10 s" in page.text) == shown


async def test_unknown_action_is_404(browser: Browser) -> None:
    await browser.get("/m/main/act/explode", 404)
