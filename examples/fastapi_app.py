"""A FastAPI application that sends orders and shows their invoices: ``uvicorn examples.fastapi_app:app``.

Its lifespan connects to the broker once, and runs a worker in a thread of the same process until the end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request
from fastapi.concurrency import contextmanager_in_threadpool
from pydantic import BaseModel, PositiveInt

import mqredis.asyncio
from mqredis.worker import Retry, Unit, Worker

worker = Worker()


class Order(BaseModel):
    """An order of a customer."""

    item: str
    amount: PositiveInt


@worker.consumer("orders", retry=Retry(attempts=5), create={"transactional": True})
def invoice(order: Order, tx: Unit) -> None:
    """Send the invoice in the transaction that receives the order: both happen, or neither."""
    customer = tx.messages[0].correlation_id
    tx.send("invoices", f"{order.amount} {order.item}", correlation_id=customer)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Connect to the broker while the application runs."""
    async with mqredis.asyncio.connect() as manager:
        for name in ("orders", "invoices"):
            await manager.create_queue(name, transactional=True, exist_ok=True)
        app.state.manager = manager
        async with contextmanager_in_threadpool(worker.background()):  # its end waits for the handlers
            yield


app = FastAPI(lifespan=lifespan)


def manager_of(request: Request) -> Any:
    """The open queue manager."""
    return request.app.state.manager


Manager = Annotated[Any, Depends(manager_of)]
Customer = Annotated[str, Path(max_length=60)]  # a correlation id has up to 255 bytes
Seconds = Annotated[float, Query(ge=0, le=30)]


@app.post("/orders/{customer}", status_code=202)
async def place(customer: Customer, order: Order, manager: Manager) -> dict[str, str]:
    """Accept an order."""
    async with manager.open("orders") as orders, manager.transaction() as tx:
        sent = await orders.send(order.model_dump_json(), correlation_id=customer, transaction=tx)
    return {"id": str(sent.message_id)}


@app.post("/invoices/{customer}/next")
async def next_invoice(customer: Customer, manager: Manager, wait: Seconds = 0) -> dict[str, str]:
    """Take the next invoice of a customer; ``wait``: seconds. A request that is cancelled takes none."""
    match = mqredis.Match(correlation_id=customer)
    async with manager.open("invoices") as invoices, manager.transaction(lease=60) as tx:
        try:
            message = await invoices.receive(wait, match=match, transaction=tx)
        except mqredis.IoTimeout:
            raise HTTPException(404, "no invoice is there yet") from None
    return {"invoice": message.text}


@app.get("/health")
async def health(manager: Manager) -> dict[str, Any]:
    """Messages in the broker, and when the worker last read its queues."""
    info = await manager.info()
    return {"messages": info.messages, "consumers": worker.health()}
