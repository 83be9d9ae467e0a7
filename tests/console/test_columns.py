"""The columns and the order of a list of messages."""

from __future__ import annotations

import re

import pytest

from mqredis import Journal, Outgoing
from mqredis.asyncio import QueueManager
from mqredis.console import columns
from mqredis.console.pages import messages
from tests.console.browser import Browser, Page
from tests.console.test_failures import poison
from tests.console.test_pages import fill

PAGE = "/m/main/messages"


def heads(page: Page) -> list[str]:
    """What stands above the columns."""
    head = page.html[page.html.index("<thead>") : page.html.index("</thead>")]
    return re.findall(r"<th[^>]*>([^<]*)</th>", head)


def rows(page: Page) -> list[list[str]]:
    """The cells of the rows, without the lookup ids."""
    body = page.html[page.html.index('<tbody id="rows">') : page.html.index("</tbody>")]
    return [
        [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)]
        for row in re.findall(r"<tr>.*?</tr>", body, re.DOTALL)
    ]


async def test_fields_and_properties_are_shown_as_columns(browser: Browser, manager: QueueManager) -> None:
    await fill(
        manager,
        [
            Outgoing(
                "a", label="first", priority=5,
                properties={"customer": "Zoë", "n": 2500, "share": 0.25, "vip": False, "raw": b"\x01\xff"},
            ),
            Outgoing("b", app_tag=7, properties={"customer": "<b>", "n": -1}),
        ],
    )  # fmt: skip
    wanted = "priority, prop:customer,prop:n, prop:share,prop:vip,prop:raw,label,app_tag,journal,size,prop:n"
    page = await browser.get(PAGE, queue="orders", columns=wanted)
    assert heads(page) == [
        "Lookup id", "Priority", "customer", "n", "share", "vip", "raw", "Label", "App tag", "Journal", "Size",
    ]  # fmt: skip
    first, second = rows(page)
    assert first[:9] == ["5", "Zoë", "2500", "0.25", "no", "0x01ff", "first", "0", "none"]
    assert second[:9] == ["3", "&lt;b&gt;", "-1", "", "", "", "", "7", "none"]
    assert 'value="' + wanted.replace('"', "") in page.html
    assert re.search(r'<th class="number">n</th><th class="number">share</th><th>vip</th>', page.html)


@pytest.mark.parametrize("name", columns.NAMES)
async def test_every_field_can_be_a_column(browser: Browser, manager: QueueManager, name: str) -> None:
    await fill(manager, [Outgoing("a", correlation_id=b"\x01\x02")])
    page = await browser.get(PAGE, queue="orders", columns=name)
    assert len(heads(page)) == 2
    assert len(rows(page)) == 1


async def test_failed_messages_are_listed_with_their_errors(browser: Browser, manager: QueueManager) -> None:
    await poison(manager, "ValueError: no card", None)
    page = await browser.get(PAGE, queue="orders;poison")
    assert heads(page)[1:3] == ["Arrived", "Error"]
    assert [cells[1] for cells in rows(page)] == ["ValueError: no card", "poison"]


async def test_dead_letters_are_listed_with_the_queues_that_they_come_from(
    browser: Browser, manager: QueueManager
) -> None:
    await fill(manager, [Outgoing("a", journal=Journal.DEAD_LETTER)])
    async with await manager.open("orders") as orders:
        await (await orders.lock(0)).reject("no card")
    page = await browser.get(PAGE, queue="system$;deadletter")
    assert heads(page)[1:4] == ["Arrived", "Error", "Original queue"]
    assert [cells[1:3] for cells in rows(page)] == [["receive_rejected: no card", "orders"]]


async def test_unknown_column_is_told_in_place(browser: Browser) -> None:
    page = await browser.get(PAGE, 400, queue="orders", columns="priority,customer")
    assert "messages have no field 'customer'. A property is written prop:customer" in page.text
    page = await browser.get(PAGE, 400, queue="orders", columns=",".join(f"prop:p{n}" for n in range(21)))
    assert "columns: 21 are too many; a page shows 20" in page.text


@pytest.mark.parametrize("order", ["", "newest"])
async def test_columns_and_order_are_kept_from_page_to_page(
    browser: Browser, manager: QueueManager, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    monkeypatch.setattr(messages, "ROWS", 2)
    await fill(manager, [Outgoing(str(n), properties={"n": n}) for n in range(5)])
    page = await browser.get(PAGE, queue="orders", columns="prop:n", order=order)
    seen = [cells[0] for cells in rows(page)]
    for _ in range(2):
        page = await browser.get(next(each for each in page.addresses if "after=" in each))
        seen += [cells[0] for cells in rows(page)]
        await fill(manager, [Outgoing("late", properties={"n": 9})])  # arrives while the visitor reads
    assert seen[:5] == [str(n) for n in (range(5) if not order else reversed(range(5)))]
    back = [each for each in page.addresses if "after=" in each or "trail" in each]
    page = await browser.get(back[0])
    assert [cells[0] for cells in rows(page)] == seen[2:4]
    assert heads(page) == ["Lookup id", "n"]


async def test_position_of_a_selector_error_is_shown(browser: Browser) -> None:
    page = await browser.get(PAGE, 400, queue="orders", selector="region = 'EU' AND amount >> 3")
    shown = re.search(r"<pre><code>(.*)\n( *)\^</code></pre>", page.html)
    assert shown
    assert len(shown[2]) == "region = 'EU' AND amount >> 3".index(">> 3") + 1
    assert 'aria-invalid="true"' in page.html
