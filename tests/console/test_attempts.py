"""Wrong tokens are logged, and guessing is slowed down."""

from __future__ import annotations

import logging
from typing import Any, cast

import httpx
import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from mqredis.asyncio import QueueManager
from mqredis.console import app
from mqredis.console.attempts import MOST, PAUSE, WRONG, Attempts
from tests.console.browser import HOST, Browser

TOKEN = "a token of many characters"


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server_kind() -> str:
    """These checks do not depend on the server, so one kind suffices."""
    return "fake"


async def test_address_is_blocked_after_five_wrong_tokens(
    manager: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    clock, application = Clock(), app({"main": manager}, token=TOKEN)
    application.state.console.attempts.clock = clock
    guesser = Browser(application, client=("192.0.2.1", 1))
    for _ in range(WRONG):
        page = await guesser.post("/login", {"token": "wrong"}, 401)
        assert "This is not the token." in page.text
    clock.now += 15
    for token in ("wrong", TOKEN):
        page = await guesser.post("/login", {"token": token}, 429)
        assert "Too many wrong tokens came from your address. Try again in 45 s." in page.text
        assert page.response.headers["retry-after"] == "45"
    await guesser.get("/m/main/", 401)
    other = Browser(application, client=("192.0.2.2", 1))
    assert "q-orders" in (await other.post("/login", {"token": TOKEN})).html
    clock.now += 45
    assert "q-orders" in (await guesser.post("/login", {"token": TOKEN})).html
    told = [each for each in caplog.records if each.name == "mqredis.console"]
    assert [(each.levelno, "192.0.2.1" in each.getMessage()) for each in told] == [
        (logging.WARNING, True)
    ] * (WRONG + 2)
    assert TOKEN not in caplog.text
    await guesser.close()
    await other.close()


def test_wrong_tokens_are_reset_by_a_correct_one_and_by_the_pause() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    for _ in range(WRONG - 1):
        attempts.wrong("192.0.2.1")
    attempts.right("192.0.2.1")
    assert len(attempts) == 0
    for _ in range(WRONG - 1):
        attempts.wrong("192.0.2.1")
    clock.now += PAUSE
    attempts.wrong("192.0.2.1")
    assert attempts.wait("192.0.2.1") == 0


def test_ipv4_addresses_that_are_mapped_into_ipv6_are_counted_apart() -> None:
    attempts = Attempts()
    for _ in range(WRONG):
        attempts.wrong("::ffff:192.0.2.1")
    assert attempts.wait("::ffff:192.0.2.1") > 0
    assert attempts.wait("::ffff:192.0.2.2") == 0


def test_one_network_of_ipv6_counts_as_one_address() -> None:
    attempts = Attempts(Clock())
    for number in range(WRONG):
        attempts.wrong(f"2001:db8::{number:x}")
    assert attempts.wait("2001:db8::ffff") == PAUSE
    assert attempts.wait("2001:db8:0:1::1") == 0


def test_number_of_remembered_addresses_is_bounded() -> None:
    attempts = Attempts(Clock())
    for _ in range(WRONG):
        attempts.wrong("first")
    for number in range(MOST - 1):
        attempts.wrong(f"host {number}")
    assert (len(attempts), attempts.wait("first")) == (MOST, PAUSE)
    attempts.wrong("one more")
    assert (len(attempts), attempts.wait("first")) == (MOST, 0)


async def test_trusted_proxy_supplies_the_client_address(
    manager: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    application = app({"main": manager}, token=TOKEN)
    # What uvicorn puts in front of an application.
    proxied: Any = ProxyHeadersMiddleware(cast("Any", application), trusted_hosts="127.0.0.1")
    for peer, told in (("127.0.0.1", "192.0.2.7"), ("192.0.2.9", "192.0.2.9")):
        caplog.clear()
        transport = httpx.ASGITransport(app=proxied, client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url=HOST) as client:
            headers = {"origin": HOST, "x-forwarded-for": "192.0.2.7"}
            response = await client.post("/login", data={"token": "wrong"}, headers=headers)
        assert response.status_code == 401
        assert caplog.messages == [f"a wrong token from {told} was refused"]
