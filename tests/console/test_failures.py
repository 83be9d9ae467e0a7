"""Failed messages in groups of one kind of error."""

from __future__ import annotations

import re

from mqredis import Outgoing, RetryPolicy
from mqredis.asyncio import QueueManager
from mqredis.console.pages import failures
from tests.console.browser import Browser, Page
from tests.console.test_pages import fail, fill

PAGE = "/m/main/failures"


async def poison(manager: QueueManager, *errors: str | None) -> None:
    """Poison messages with these errors."""
    await fill(
        manager,
        [
            Outgoing("x", properties={} if error is None else {"failure_error": error, "failure_reason": "r"})
            for error in errors
        ],
    )
    await manager.update_queue("orders", retry=RetryPolicy(immediate=0))
    for _ in errors:
        await fail(manager, "orders")


async def looked_at(browser: Browser, page: Page) -> list[int]:
    """Return the number of messages that the search of each group finds."""
    found = []
    for address in [each for each in page.addresses if "/messages?" in each and "selector" in each]:
        text = (await browser.get(address)).text
        match = re.search(r"(\d+) messages? on this page", text)
        assert match, text
        found.append(int(match[1]))
    return found


async def test_errors_differing_only_in_numbers_are_grouped(browser: Browser, manager: QueueManager) -> None:
    await poison(
        manager,
        "ValueError: card 17 is unknown",
        "ValueError: card 4711 is unknown",
        "KeyError: 'a_%!b'",
        "KeyError: 'c'",
        "TimeoutError: 100% of 5 s passed",
        "ValueError: no card",
        None,
        None,
        None,
    )
    page = await browser.get(PAGE)
    assert "Its reader told no error. poison 3 " in page.text
    assert "ValueError: card \u2026 is unknown poison 2 " in page.text
    assert "KeyError: \u2026 poison 2 " in page.text
    assert "TimeoutError: 100% of 5 s passed poison 1 " in page.text  # as it is, where all are the same
    assert await looked_at(browser, page) == [3, 2, 2, 1, 1]


async def test_action_on_a_group_affects_no_other(browser: Browser, manager: QueueManager) -> None:
    await poison(manager, "E: 1", "E: 2", None)
    page = await browser.get(PAGE)
    group = next(each for each in page.addresses if "/act/purge" in each and "LIKE" in each)
    form = await browser.get(group)
    assert "This affects 2 messages of orders;poison." in form.text
    group = next(
        each for each in page.addresses if "/act/redrive" in each and "failure_error+IS+NULL" in each
    )
    assert "This affects 1 message of orders;poison." in (await browser.get(group)).text


async def test_action_on_a_group_leaves_errors_that_contain_its_text(
    browser: Browser, manager: QueueManager
) -> None:
    await poison(
        manager,
        "404",
        "404",
        "500",
        "KeyError: 'a'",
        "KeyError: 'b'",
        "KeyError: 'abc' in x",
        "KeyError: 'd' in x",
    )
    page = await browser.get(PAGE)
    affected = []
    for address in [each for each in page.addresses if "/act/purge" in each and "selector" in each]:
        found = re.search(
            r"This affects (\d) messages? of orders;poison\.", (await browser.get(address)).text
        )
        assert found
        affected.append(int(found[1]))
    # Both kinds of KeyError, the second of which the pattern of the first would choose too; 404 and 500.
    assert sorted(affected) == [1, 2, 2, 2]


def test_time_of_grouping_is_proportional_to_the_length_of_the_error() -> None:
    digits = "1" * 300_000  # of these a quadratic search takes longer than the time limit of a test
    assert failures._kind(f"unknown order {digits}g") == f"unknown order {failures.ANY}g"


async def test_omitted_groups_are_counted(browser: Browser, manager: QueueManager) -> None:
    names = [f"{chr(97 + n)}Error: x" for n in range(failures.GROUPS + 2)]
    await poison(manager, *names)
    assert "2 smaller groups of other errors are not shown." in (await browser.get(PAGE)).text


async def test_message_without_an_error_says_so(browser: Browser, manager: QueueManager) -> None:
    await poison(manager, None)
    page = await browser.get(PAGE)
    page = await browser.get(next(each for each in page.addresses if "/messages?" in each))
    page = await browser.get(next(each for each in page.addresses if "/message?" in each))
    assert "It was given up after 1 attempt. Its reader told no error." in page.text
