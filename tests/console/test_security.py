"""Authentication, authorization, refused requests and security headers."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest
from starlette.requests import Request

from mqredis import InvalidArgument, RetryPolicy
from mqredis.asyncio import QueueManager
from mqredis.console import Visitor, app, everyone
from mqredis.console.security import MAX_FORM_BYTES, Signer
from mqredis.console.serve import local
from mqredis.models.lookup_ids import hex_id
from tests.console.browser import HOST, Browser, Page
from tests.console.test_pages import fail, fill

TOKEN = "a token of many characters"


def known(visitor: Visitor, _: Request) -> Visitor:
    """Return an ``access=`` function that always returns this visitor."""
    return visitor


@pytest.fixture
def server_kind() -> str:
    """These checks do not depend on the server, so one kind suffices."""
    return "fake"


async def test_token_is_requested_once(manager: QueueManager) -> None:
    browser = Browser(app({"main": manager}, token=TOKEN))
    assert "Token" in (await browser.get("/m/main/", 401)).text
    assert "This is not the token" in (await browser.post("/login", {"token": TOKEN + "x"}, 401)).text
    await browser.get("/m/main/", 401)
    page = await browser.post("/login", {"token": TOKEN})
    assert "q-orders" in page.html
    await browser.act("send", queue="orders", body="x")
    await browser.post("/logout", page.fields, 401)
    await browser.get("/m/main/", 401)
    await browser.close()


async def test_cookie_is_signed_same_site_strict_and_http_only(manager: QueueManager) -> None:
    browser = Browser(app({"main": manager}, token=TOKEN))
    response = await browser.client.post(
        "/login", data={"token": TOKEN}, headers={"origin": HOST}, follow_redirects=False
    )
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    name, _, value = cookie.partition(";")[0].partition("=")
    nonce, until, admitted, signature = value.split(".")
    for forged in (
        f"{nonce}.{until}.{admitted}.{signature[:-1]}0x",
        f"{nonce}.{int(until) + 9}.1.{signature}",
        "x",
        "",
    ):
        browser.client.cookies.clear()
        browser.client.cookies.set(name, forged)
        await browser.get("/m/main/", 401)
    await browser.close()


async def test_cookie_is_set_only_when_the_token_was_given(manager: QueueManager) -> None:
    """Its signature would let a visitor test guesses of the token without asking the console."""
    browser = Browser(app({"main": manager}, token=TOKEN))
    for page in (
        await browser.get("/m/main/", 401),
        await browser.get("/m/other/", 401),
        await browser.post("/theme", {"theme": "dark"}, 401),
        await browser.post("/login", {"token": TOKEN + "x"}, 401),
    ):
        assert "Token" in page.text
        assert "set-cookie" not in page.response.headers
    assert "q-orders" in (await browser.post("/login", {"token": TOKEN})).html
    assert len(browser.client.cookies) == 1
    await browser.close()


def test_cookie_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    signer = Signer(b"key")
    value = signer.new_cookie(admitted=True)
    assert signer.read_cookie(value) is not None
    assert Signer(b"other").read_cookie(value) is None
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 13 * 3600)
    assert signer.read_cookie(value) is None


async def test_form_of_another_site_is_refused(browser: Browser, manager: QueueManager) -> None:
    form = await browser.get("/m/main/act/send", queue="orders")
    fields = {**form.fields, "body": "x"}
    path = "/m/main/act/send"
    for origin in (None, "http://evil.test", "null", f"{HOST}.evil.test", "http://[", "console.test"):
        page = await browser.post(path, fields, 403, origin=origin)
        assert "does not come from a page of this console" in page.text
    for wrong in ("", "x", form.fields["csrf"][::-1]):
        page = await browser.post(path, {**fields, "csrf": wrong}, 403)
        assert "not from this console" in page.text
    other = Browser(app({"main": manager}, access=everyone, secret=b"another key"))
    await other.post(path, fields, 403)
    await other.close()
    assert (await manager.queue_info("orders")).messages == 0


async def test_notice_text_cannot_be_forged_in_a_link(browser: Browser) -> None:
    page = await browser.act("send", queue="orders", body="x")
    value = page.response.url.params["done"]
    assert "was sent to orders" in page.text
    for wrong in (
        value.replace("sent", "lent"),
        value.replace(".done.", ".started."),
        "x.done.Call 555",
        "x",
    ):
        assert 'class="notice' not in (await browser.get("/m/main/", done=wrong)).html
    browser.client.cookies.clear()
    assert 'class="notice' not in (await browser.get("/m/main/", done=value)).html


async def test_every_response_has_security_headers(browser: Browser) -> None:
    for path, status in (
        ("/m/main/", 200),
        ("/m/main/queue?name=x", 404),
        ("/nothing", 404),
        ("/static/console.css", 200),
    ):
        page = await browser.get(path, status)
        policy = page.response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert page.response.headers["x-frame-options"] == "DENY"
        assert page.response.headers["x-content-type-options"] == "nosniff"
        assert " style=" not in page.html
        assert "<script>" not in page.html


@pytest.mark.parametrize("access", [lambda _: Visitor("bob"), everyone])
async def test_read_only_visitor_has_no_buttons_and_cannot_act(manager: QueueManager, access) -> None:
    browser = Browser(app({"main": manager}, access=access, read_only=access is everyone))
    page = await browser.get("/m/main/queue", name="orders")
    assert not [address for address in page.addresses if "/act/" in address]
    assert "reads only" in page.text
    await browser.get("/m/main/act/purge", 403, queue="orders")
    assert ("/m/main/doctor" in page.addresses) is (access is not everyone)
    fields = {**page.fields, "token": "t", "queue": "orders", "confirm": "orders"}
    assert "not carry out this action" in (await browser.post("/m/main/act/purge", fields, 403)).text
    await browser.close()


async def test_visitor_has_only_the_granted_actions(manager: QueueManager) -> None:
    async def access(request: Request) -> Visitor | None:
        return Visitor("ann", {"send"}) if request.headers.get("x-user") == "ann" else None

    browser = Browser(app({"main": manager}, access=access))
    assert "You have no access" in (await browser.get("/m/main/", 403)).text
    browser.client.headers["x-user"] = "ann"
    await browser.act("send", queue="orders", body="x")
    await browser.get("/m/main/act/purge", 403, queue="orders")
    await browser.close()


def test_text_is_no_list_of_actions() -> None:
    """Python takes ``("delete-queue")`` for a text, of which "delete" is a part."""
    for wrong in ("delete-queue", "send,redrive", ""):
        with pytest.raises(InvalidArgument, match="actions must be"):
            Visitor("ann", wrong)
    assert Visitor("ann", "all").may("send")


@pytest.mark.parametrize(
    "managers, access, told",
    [
        ("redis://localhost", "ann", "access must be a function"),
        (object(), everyone, "queue manager of mqredis.asyncio, a URL or Settings, not builtins.object"),
        ({"shop": 5}, everyone, "queue manager of mqredis.asyncio, a URL or Settings, not builtins.int"),
    ],
)
def test_wrong_arguments_are_refused(managers: Any, access: Any, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        app(managers, access=access)


async def test_bodies_are_hidden_until_requested(manager: QueueManager) -> None:
    (number,) = await fill(manager, ["secret"])
    where = {"queue": "orders", "id": hex_id(number)}
    for actions in (("bodies",), ()):
        visitor = Visitor("ann", actions)
        browser = Browser(app({"main": manager}, access=partial(known, visitor), hide_bodies=True))
        assert "secret" not in (await browser.get("/m/main/messages", queue="orders")).text
        assert "secret" not in (await browser.get("/m/main/message", 200, **where)).text
        assert ("secret" in (await browser.get("/m/main/message", 200, **where, body="show")).text) is bool(
            actions
        )
        await browser.get("/m/main/body", 200 if actions else 403, **where)
        await browser.close()


async def test_edit_form_shows_hidden_bodies_only_with_the_right(manager: QueueManager) -> None:
    await manager.update_queue("orders", retry=RetryPolicy(immediate=0))
    (number,) = await fill(manager, ["secret"])
    await fail(manager, "orders")
    where = {"queue": "orders;poison", "id": hex_id(number)}
    for actions in (("send-again",), ("send-again", "bodies")):
        visitor = Visitor("ann", actions)
        browser = Browser(app({"main": manager}, access=partial(known, visitor), hide_bodies=True))
        page = await browser.get("/m/main/message", 200, **where)
        may = "bodies" in actions
        assert any("/act/send-again" in address for address in page.addresses) is may
        form = await browser.get("/m/main/act/send-again", 200 if may else 403, **where)
        assert ("secret" in form.html) is may
        await browser.close()


async def test_form_size_is_limited(browser: Browser) -> None:
    form = await browser.get("/m/main/act/send", queue="orders")
    page = await browser.post("/m/main/act/send", {**form.fields, "body": "x" * MAX_FORM_BYTES}, 400)
    assert "the form is larger than" in page.text
    headers = {"origin": HOST, "content-type": "application/json"}
    page = Page(await browser.client.post("/m/main/act/send", content="{}", headers=headers))
    assert (page.status, "a form is expected" in page.text) == (400, True)


async def test_theme_is_stored_and_redirects_only_to_the_console(browser: Browser) -> None:
    page = await browser.get("/m/main/topics")
    assert "data-theme" not in page.html
    page = await browser.post("/theme", {**page.fields, "theme": "dark"})
    assert 'data-theme="dark"' in page.html
    assert str(page.response.url) == f"{HOST}/m/main/topics"
    for back in ("//evil.test/", "http://evil.test/", "/\\evil.test"):
        page = await browser.post("/theme", {**page.fields, "theme": '"><script>', "back": back})
        assert str(page.response.url) == f"{HOST}/m/main/"
    assert "data-theme" not in page.html


async def test_console_without_a_token_accepts_only_loopback_host_names(
    manager: QueueManager,
) -> None:
    browser = Browser(local({"main": manager}))
    for host, status in (("localhost:8650", 200), ("127.0.0.1:8650", 200), ("evil.test", 400)):
        browser.client.headers["host"] = host
        assert (await browser.client.get("/m/main/")).status_code == status
    await browser.client.aclose()


@pytest.mark.parametrize(
    "wrong, text",
    [
        ({}, "say who may use the console"),
        ({"access": everyone, "token": TOKEN}, "say who may use the console"),
        ({"token": "short"}, "at least 16 are needed"),
        ({"access": everyone, "interval": 0}, "interval"),
        ({"access": everyone, "interval": float("nan")}, "interval"),
        ({"access": everyone, "managers": {}}, "at least one queue manager"),
        ({"access": everyone, "managers": {"a/b": "redis://"}}, "letters, digits"),
    ],
)
def test_invalid_configuration_is_refused(wrong, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        app(**wrong)
