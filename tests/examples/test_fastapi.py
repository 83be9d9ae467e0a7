"""The example for FastAPI, as a client of it sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from mqredis.drivers.connect import forget_store


@pytest.fixture
async def client(server_kind, request, monkeypatch) -> AsyncIterator[httpx.AsyncClient]:
    url = "memory://fastapi" if server_kind == "fake" else request.getfixturevalue("redis_server").url
    monkeypatch.setenv("MQREDIS_URL", url)
    monkeypatch.setenv("MQREDIS_ALLOW_VOLATILE", "1")
    from examples.fastapi_app import app

    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://t") as it,
    ):
        yield it
    forget_store("fastapi")


async def test_order_is_handled_and_its_invoice_returned(client):
    assert (await client.post("/invoices/ann/next")).status_code == 404
    answer = await client.post("/orders/ann", json={"item": "tea", "amount": 2})
    assert answer.status_code == 202
    assert answer.json()["id"].startswith("mq-")
    refused = await client.post("/orders/ann", json={"item": "tea", "amount": 0})
    assert refused.status_code == 422
    invoice = await client.post("/invoices/ann/next", params={"wait": 30}, timeout=60)
    assert invoice.json() == {"invoice": "2 tea"}
    (consumer,) = (await client.get("/health")).json()["consumers"].values()
    assert consumer["queues"] == ["orders"]


async def test_app_can_be_started_again(client):
    await client.post("/orders/bob", json={"item": "milk", "amount": 1})
    invoice = await client.post("/invoices/bob/next", params={"wait": 30}, timeout=60)
    assert invoice.json() == {"invoice": "1 milk"}


async def test_values_that_the_broker_does_not_take_are_refused_as_invalid(client: httpx.AsyncClient) -> None:
    for wait in ("nan", "-1", "31"):
        assert (await client.post("/invoices/ann/next", params={"wait": wait})).status_code == 422
    order = {"item": "tea", "amount": 2}
    assert (await client.post("/orders/" + "x" * 61, json=order)).status_code == 422
    assert (await client.post("/orders/" + "é" * 60, json=order)).status_code == 202
