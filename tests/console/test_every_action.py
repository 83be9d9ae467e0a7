"""What holds for every action: its form says what it would do, it is done once for each form, and it is logged once."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from html import unescape
from pathlib import Path
from typing import NamedTuple

import pytest

import mqredis.console
from mqredis import Outgoing, RetryPolicy
from mqredis.asyncio import QueueManager
from mqredis.console import Visitor, app
from mqredis.console.actions import REGISTRY
from mqredis.console.actions import messages as bulk_actions
from mqredis.console.actions.base import OPERATOR, RESERVED, Field
from mqredis.console.pages import log
from mqredis.models.lookup_ids import hex_id
from tests.console.browser import Browser, Page
from tests.console.test_pages import fail, fill

Values = Mapping[str, str]


class Case(NamedTuple):
    """An action: the arguments of its form's address, the text above the form, what is filled in, and the result."""

    arguments: Values
    preview: str
    fields: Values
    result: str


ORDERS = {"queue": "orders"}
ONE = "This affects the message 0x[0-9a-f]{16} of"
# Texts in braces are replaced by lookup ids, and by the id of a transaction.
CASES = {
    "send": Case(ORDERS, "One message goes to the queue orders, which holds 6 messages.", {"body": "x"}, "was sent to"),
    "send-again": Case(
        {"queue": "orders;poison", "id": "{poison}"}, "and then message {poison} of orders;poison is deleted",
        {"body": "right"}, "Message {poison} was deleted from orders;poison.",
    ),
    "delete": Case({**ORDERS, "id": "{ready}"}, f"{ONE} orders.", {}, "1 message of orders moved to the trash."),
    "purge": Case({**ORDERS, "selector": "n < 2"}, "This affects 2 messages of orders.", {}, "2 messages of"),
    "restore": Case(ORDERS, "This affects 1 message of orders;trash.", {}, "1 message of orders restored."),
    "move": Case({**ORDERS, "id": "{ready}"}, f"{ONE} orders.", {"target": "orders;aside"}, "moved to orders;aside."),
    "redrive": Case({"queue": "orders;poison"}, "This affects 1 message of orders;poison.", {}, "1 message of"),
    "cancel": Case({**ORDERS, "id": "{later}"}, f"{ONE} orders.", {}, "1 message of orders cancelled."),
    "reschedule": Case(
        ORDERS, "This affects 2 messages of orders.", {"delay": "90"}, "rescheduled to 1 min 30 s from now."
    ),
    "run-now": Case({**ORDERS, "id": "{later}"}, f"{ONE} orders.", {}, "1 message of orders made available."),
    "release": Case({**ORDERS, "id": "{locked}"}, "This ends the lock of 1 message of orders, {locked}.", {}, "ended."),
    "reject": Case(
        {**ORDERS, "id": "{locked}"}, "This rejects 1 message of orders, {locked}.", {"reason": "no"}, "was rejected."
    ),
    "abort": Case({"transaction": "{unit}"}, "This aborts transaction .* with 1 operation", {}, "was aborted."),
    "pause": Case(ORDERS, "No worker reads the queue orders .* This concerns 0 workers now.", {}, "Workers pause"),
    "resume": Case({"queue": "spare"}, "ann has paused the queue spare: full", {}, "Workers resume the queue spare"),
    "create-schedule": Case(
        {}, "by any worker that runs", {"schedule": "hourly", "queue": "orders", "every": "3600"}, "hourly was created."
    ),
    "pause-schedule": Case({"schedule": "nightly"}, "It sends nothing until", {}, "The schedule nightly is paused."),
    "resume-schedule": Case({"schedule": "idle"}, "are not made up for", {}, "The schedule idle is resumed."),
    "trigger-schedule": Case({"schedule": "nightly"}, "One message goes to the queue orders now", {}, "was sent."),
    "remove-schedule": Case({"schedule": "nightly"}, "The schedule nightly, .* is gone.", {}, "nightly was removed."),
    "create-queue": Case({}, "A queue is added to default.", {"queue": "more"}, "The queue more was created."),
    "delete-queue": Case(
        {"queue": "spare"}, "The queue goes with all its messages: spare holds 1 message", {}, "deleted with 1 message."
    ),
    "inhibit": Case(ORDERS, "orders holds 6 messages .*; 0 readers wait.", {"get_inhibited": "on"}, "are refused."),
    "limits": Case(ORDERS, "orders holds 6 messages", {"quota_messages": "50"}, "now: quota messages 50"),
    "subscribe": Case({"topic": "news"}, "The topic news has 1 subscription.", {"queue": "spare"}, "spare receives"),
    "unsubscribe": Case({"topic": "news", **ORDERS}, "The topic news has 1 subscription.", {}, "receives nothing more"),
    "quota": Case({}, "default holds 10 messages in 7 queues.", {"messages": "1000"}, "The quota over all queues was"),
    "throttle": Case({}, "default holds 10 messages in 7 queues.", {"throttled": "on"}, "Sends to all queues are"),
    "repair": Case({}, "The doctor looks at every message, and repairs what", {}, "0 findings repaired."),
}  # fmt: skip
# Those of running workers are in test_workers.py.
OF_WORKERS = {"stop-worker", "cancel-handler"}


@pytest.fixture
async def scene(manager: QueueManager) -> AsyncIterator[dict[str, str]]:
    """Something for every action. Gives the ids that the cases name."""
    ann = manager.operator("ann")
    await manager.update_queue("orders", retry=RetryPolicy(immediate=0))
    await manager.create_queue("spare")
    await manager.create_queue("ledger", transactional=True)
    await manager.create_queue("news", topic=True)
    await manager.subscribe("news", "orders")
    await ann.pause("spare", reason="full")
    await ann.create_schedule("nightly", "0 3 * * *", "orders", "go")
    await ann.create_schedule("idle", 3600, "orders", "go", paused=True)
    async with AsyncExitStack() as stack:
        orders = await stack.enter_async_context(await manager.open("orders"))
        ledger = await stack.enter_async_context(await manager.open("ledger"))
        (poison,) = await fill(manager, ["wrong"])
        await fail(manager, "orders")
        (trash,) = await fill(manager, ["away"])
        await ann.delete("orders", lookup_ids=[trash], trash=3600.0)
        await fill(manager, ["x"], "spare")
        (locked,) = await fill(manager, ["held"])
        await orders.lock(timeout=0)
        ready, *_ = await fill(manager, [Outgoing("x", properties={"n": n}) for n in range(3)])
        later, _ = await fill(manager, [Outgoing("later", delay=3600.0)] * 2)
        unit = await manager.transaction()
        await ledger.send("fare", transaction=unit)
        ids = {"poison": poison, "locked": locked, "ready": ready, "later": later}
        yield {"unit": unit.id, **{name: hex_id(each) for name, each in ids.items()}}
        if unit.id in [each.id for each in await manager.transactions()]:
            await unit.abort()
        await manager.throttle(False)


def filled(values: Values, scene: Values) -> dict[str, str]:
    return {name: value.format(**scene) for name, value in values.items()}


def notice(page: Page) -> str:
    """The text that says what came of an action."""
    found = re.search(r'<p class="notice done"[^>]*>\s*(.*?)\s*</p>', page.html, re.DOTALL)
    assert found, page.text
    return found[1]


async def entries(manager: QueueManager) -> int:
    return len((await log.latest(manager, 200)).entries)


def test_every_action_has_a_case() -> None:
    assert set(CASES) | OF_WORKERS == set(REGISTRY)


def test_field_that_every_form_has_cannot_be_one_of_an_action() -> None:
    form = (Path(mqredis.console.__file__).parent / "templates" / "action.html").read_text()
    assert set(re.findall(r'name="(\w+)"', form)) == RESERVED - {"cursor", OPERATOR}
    with pytest.raises(ValueError, match="total is a field of all forms"):
        Field("total", "Total")


@pytest.mark.parametrize("name", CASES)
async def test_form_says_what_it_does_and_acts_and_logs_once(
    browser: Browser, manager: QueueManager, scene: dict[str, str], name: str
) -> None:
    case, path, before = CASES[name], f"/m/main/act/{name}", await entries(manager)
    form = await browser.get(path, 200, **filled(case.arguments, scene))
    preview = re.search(r'id="preview"><bdi>(.*?)</bdi>', form.html)
    assert preview, form.text
    assert re.search(_known(case.preview, scene), unescape(preview[1]))
    values = {**form.fields, **filled(case.fields, scene)}
    if REGISTRY[name].destroys:
        for typed in ("", "other"):
            page = await browser.post(path, {**values, "confirm": typed}, 400)
            assert f"Nothing was done: type the {REGISTRY[name].names}&#39;s name to confirm." in page.html
        assert await entries(manager) == before
        values["confirm"] = values[REGISTRY[name].names]
    first, second = [notice(await browser.post(path, values)) for _ in range(2)]
    assert _known(case.result, scene) in first
    assert second == first
    assert await entries(manager) == before + (2 if name == "send-again" else 1)  # the send, and the deletion


def _known(text: str, scene: Values) -> str:
    """The text with the ids of the scene."""
    for name, value in scene.items():
        text = text.replace("{" + name + "}", value)
    return text


@pytest.mark.parametrize("name", sorted(REGISTRY))
async def test_action_without_its_right_or_its_token_is_refused(manager: QueueManager, name: str) -> None:
    others = frozenset(REGISTRY) - {name}
    browser = Browser(app({"main": manager}, access=lambda _: Visitor("bob", others)))
    page = await browser.get("/m/main/")
    before = await entries(manager)
    await browser.get(f"/m/main/act/{name}", 403, **ORDERS)
    await browser.post(
        f"/m/main/act/{name}", {**page.fields, **ORDERS, "token": "t", "confirm": "orders"}, 403
    )
    assert await entries(manager) == before
    await browser.close()


async def test_action_on_many_messages_shows_its_progress(
    browser: Browser, manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "ACTING", 0.0)
    monkeypatch.setattr(bulk_actions, "STEPS", 1)
    await fill(manager, ["x"] * 1000)
    form = await browser.get("/m/main/act/purge", 200, **ORDERS)
    assert "This affects 1,000 messages of orders." in form.text
    page = await browser.post("/m/main/act/purge", {**form.fields, "confirm": "orders"})
    shown: list[int] = []
    while "so far" in page.text:
        found = re.search(r"([\d,]+) messages of orders moved to the trash so far\. +1,000 in all", page.text)
        assert found, page.text
        shown.append(int(found[1].replace(",", "")))
        assert f'<progress value="{shown[-1]}" max="1000"' in page.html
        assert (await manager.queue_info("orders")).ready == 1000 - shown[-1]
        assert "/m/main/queue?name=orders" in page.addresses  # to stop here
        page = await browser.post("/m/main/act/purge", page.fields)
    assert len(shown) >= 3
    assert shown == sorted(set(shown))
    assert notice(page) == "1,000 messages of orders moved to the trash."
    assert await entries(manager) == 1
