"""The log of actions, whose entries are sentences."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mqredis import Outgoing
from mqredis.asyncio import QueueManager
from mqredis.console.pages import log
from mqredis.console.sentences import messages_of, of_other_calls, sentence
from mqredis.models.lookup_ids import hex_id
from mqredis.models.match import Match
from tests.console.browser import Browser
from tests.console.test_pages import fill

LOG = "/m/main/actions"


@pytest.mark.parametrize(
    "action, told, text",
    [
        ("delete", {"lookup_ids": ["0400000000000001"]}, "deleted the message 0x0400000000000001 of q."),
        ("trash", {"value": "5400000"}, "moved 1,200 messages of q to the trash, to be kept there for 1 h 30 min."),
        ("cancel", {"scheduled": True}, "cancelled 1,200 delayed messages of q."),
        ("restore", {"value": "q"}, "restored 1,200 messages from q."),
        ("move", {"value": "q%3Bodd", "scheduled": False}, "moved 1,200 available messages of q to q;odd."),
        ("redrive", {"limit": 5000}, "put back 1,200 messages of q, at most 5,000."),
        # A queue whose name is a number, of which no other word of a sentence is made.
        ("redrive", {"value": "1234567890123456"}, "put back 1,200 messages of q into 1234567890123456."),
        ("redrive", {"value": "p", "selector": "n > 1"}, "put back 1,200 messages of q into p: those with n > 1."),
        ("reschedule", {"value": "+60000"}, "rescheduled 1,200 messages of q to 1 min later."),
        ("reschedule", {"value": "1000"}, "rescheduled 1,200 messages of q to 1970-01-01 00:00:01 UTC."),
        ("reschedule", {"value": "?"}, "rescheduled 1,200 messages of q to ?."),
        ("run_now", {"match": {"token": "g"}}, "made 1,200 messages of q available at once: those with token = g."),
        ("priority", {"value": "6"}, "gave 1,200 messages of q the priority 6."),
        ("release", {"reject": "bad"}, "ended the lock of 1,200 messages of q (bad)."),
        ("abort", {"transaction": "7"}, "aborted the transaction 7."),
        ("pause", {"reason": "late"}, "paused q for workers (late)."),
        ("pause", {"consumer": "pay"}, "paused the consumer pay."),
        ("resume", {}, "resumed q for workers."),
        ("stop_worker", {"worker": "w"}, "asked the worker w to stop."),
        (
            "cancel_handler",
            {"worker": "w", "lookup_id": "0400000000000001"},
            "asked the worker w to cancel the handler of the message 0x0400000000000001.",
        ),
        (
            "create_schedule",
            {"schedule": "s", "when": "0 3 * * *", "timezone": "UTC", "paused": False},
            "created the schedule s, which sends to q at 0 3 * * * UTC.",
        ),
        ("reindex", {"full": True, "size": 5}, "began reindex on q (full on, size 5)."),
        ("reindex", {}, "began reindex on q."),
        ("delete", {"cut": '{"selector": "'}, "began delete on q."),
    ],
)  # fmt: skip
def test_log_entry_is_a_sentence(action: str, told: dict[str, Any], text: str) -> None:
    assert sentence("ann", action, "q", 1200, True, told) == f"ann {text}"


def test_sentence_names_result_failure_or_unfinished_state() -> None:
    said = of_other_calls("ann", "delete_queue", "q", {"result": "It is gone."})
    assert said == "ann, delete queue: It is gone."
    assert of_other_calls("ann", "limits", "q", {"error": "E: no"}) == "ann, limits on q, failed: E: no"
    assert (
        sentence("ann", "delete", "q", 3, False, {}) == "ann deleted 3 messages of q, and has not finished."
    )
    assert sentence("ann", "resume", "q", 0, True, {}) == "ann resumed q for workers, which changed nothing."


@pytest.mark.parametrize("ids", ["abc-x", ["0400000000000001", "?"], 5, "0400000000000001"])
def test_only_lookup_ids_of_entries_are_links(ids: object) -> None:
    assert messages_of({"lookup_ids": ids}) == ([0x0400000000000001] if isinstance(ids, list) else [])
    assert messages_of({"lookup_id": ids}) == ([0x0400000000000001] if ids == "0400000000000001" else [])


async def test_entry_of_a_program_may_have_any_details(browser: Browser, manager: QueueManager) -> None:
    details = {"value": "100%", "lookup_ids": "none", "when": None}
    await manager.operator("ann").begin("move", "orders", token="t", details=details)
    page = await browser.get(LOG)
    assert "ann began move on orders (value 100%, lookup ids none). started" in page.text


async def test_action_of_many_calls_is_one_entry(browser: Browser, manager: QueueManager) -> None:
    await fill(manager, ["x"] * 700)
    operator = manager.operator("ann")
    assert (await operator.delete("orders")).changed == 700
    page = await browser.get(LOG)
    assert "ann deleted 700 messages of orders. done" in page.text
    assert page.text.count("ann deleted") == 1
    await fill(manager, ["x"] * 700)
    result = await operator.delete("orders", steps=1)
    page = await browser.get(LOG)
    assert f"ann deleted {result.changed} messages of orders, and has not finished. started" in page.text
    assert "ann deleted 700 messages of orders. done" in page.text


async def test_sentence_names_match_and_time(browser: Browser, manager: QueueManager) -> None:
    await fill(manager, [Outgoing("x", correlation_id="c", delay=60)])
    at = datetime(2100, 1, 1, tzinfo=UTC)
    await manager.operator("ann").reschedule("orders", at=at, match=Match(correlation_id="c"))
    page = await browser.get(LOG)
    said = "ann rescheduled 1 delayed message of orders to 2100-01-01 00:00:00 UTC: those with correlation id = c."
    assert said.replace("delayed message", "message") in page.text or said in page.text


async def test_older_entries_are_on_the_next_page(
    browser: Browser, manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(53):
        await manager.operator("ann").begin(f"step-{n}", token=str(n))
    page = await browser.get(LOG)
    assert "step-52" in page.text
    assert "step-3." in page.text
    assert "step-2." not in page.text
    older = next(address for address in page.addresses if "before=" in address)
    page = await browser.get(older)
    assert "ann began step-2. started" in page.text
    assert "step-0." in page.text
    assert not [address for address in page.addresses if "before=" in address]
    monkeypatch.setattr(log, "READ", 10)  # a page ends also where few of many entries are shown
    page = await browser.get(LOG)
    assert "step-43." in page.text
    assert "step-42." not in page.text
    assert [address for address in page.addresses if "before=" in address]


async def test_entry_links_to_its_message(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", trail=1.0)
    ids = await fill(manager, ["x"] * 5)
    await manager.operator("ann").delete("orders", lookup_ids=ids[:1])
    await manager.operator("ann").delete("orders", lookup_ids=ids[1:])
    page = await browser.get(LOG)
    assert f"ann deleted the message {hex_id(ids[0])} of orders." in page.text
    assert "ann deleted 4 messages of orders." in page.text
    assert "and 1 more" in page.text
    trail = await browser.get(next(each for each in page.addresses if f"id={hex_id(ids[0])}" in each))
    assert "purged orders" in trail.text
