"""The argument ``tx`` of handlers: messages sent with it are sent when the handled message is committed, or not at
all.

``attempts`` makes one for each run of a handler and reads its ``broker_error``, as ``transaction_loop`` does; ``loop``
reads its messages. Users have it as ``mqredis.worker.Unit`` and ``AsyncUnit`` (docs/worker.md), whose ``send`` have the
same arguments. Sends of a unit whose messages are locked are made just before the commit, in calls of their own: if the
process dies in between, the handler runs again, and they are made twice.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Unpack

from pydantic import BaseModel

from mqredis.client import Queue, Transaction
from mqredis.errors import TransactionUsage
from mqredis.handles import Handles
from mqredis.models import Message, Outgoing
from mqredis.models.header import MessageFields
from mqredis.operations.send import outgoing
from mqredis.worker.outcomes import BROKER_ERRORS, accept_lower_durability


class Unit:
    """The unit of work around one run of a handler.

    Messages of a transactional queue are received in a transaction: sends go into it. Messages of other queues are
    locked: sends are kept until the handler has ended well, and then go out before the lock is committed.
    """

    def __init__(
        self, targets: Handles, messages: Sequence[Message], transaction: Transaction | None
    ) -> None:
        self.manager = targets.manager
        """The queue manager of the worker."""
        self.messages = list(messages)
        """The messages that are being handled."""
        self._targets = targets
        self._transaction = transaction
        # Threads of ``AsyncUnit.send`` may append at once.
        self._kept: list[tuple[Queue, Outgoing]] = []
        # The thread that cancels the handler sets it, once.
        self._lost = False
        # The error of a send that is the broker's, not the handler's.
        self.broker_error: Exception | None = None

    @property
    def transaction(self) -> Transaction:
        """The transaction itself, for other calls. Raises TransactionUsage if the queue is not transactional."""
        if self._transaction is None:
            raise TransactionUsage("the handled message is locked, not received in a transaction")
        return self._transaction

    @property
    def cancelled(self) -> bool:
        """Must the handler end: is its message lost, its time over, or its worker told to end?"""
        return self._lost

    def _lose(self) -> None:
        self._lost = True

    def send(
        self,
        queue: str,
        body: bytes | str | BaseModel | dict[str, Any] = b"",
        **fields: Unpack[MessageFields],
    ) -> None:
        """Send a message to ``queue``; ``fields`` are those of Outgoing. A model or dict is sent as JSON.

        Raises ValueError for a dict with a number that JSON does not have: infinite, or nan.
        """
        content: bytes | str = b""
        if isinstance(body, BaseModel):
            content = body.model_dump_json().encode()
            fields.setdefault("content_type", "application/json")
        elif isinstance(body, dict):
            content = json.dumps(body, allow_nan=False).encode()
            fields.setdefault("content_type", "application/json")
        else:
            content = body
        message = outgoing(content, fields)
        try:
            handle = self._targets.open(queue)
            if self._transaction is not None:
                self._send(handle, message, self._transaction)
            else:
                self._kept.append((handle, message))
        except TransactionUsage:
            raise TransactionUsage(
                f"queue {queue!r} is not transactional, as that of the handled message is: tx.send goes into the "
                "transaction that has received it, so create the queue with transactional=True"
            ) from None
        except BROKER_ERRORS as error:
            self.broker_error = error
            raise

    def flush(self) -> None:
        """Send the kept messages: to transactional queues in one transaction, to others one by one."""
        kept, self._kept = self._kept, []
        inside = [item for item in kept if item[0].handle.transactional]
        for handle, message in kept:
            if not handle.handle.transactional:
                accept_lower_durability(partial(self._send, handle, message))
        if inside:
            accept_lower_durability(lambda: self._send_together(inside))

    def _send_together(self, items: Sequence[tuple[Queue, Outgoing]]) -> None:
        with self.manager.transaction() as transaction:
            for handle, message in items:
                self._send(handle, message, transaction)

    def _send(self, handle: Queue, message: Outgoing, transaction: Transaction | None = None) -> None:
        self._targets.use(handle.name, lambda target: target.send(message, transaction=transaction))


class AsyncUnit:
    """The unit of work around one run of a handler that is a coroutine (see :class:`Unit`)."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        # Each send, with the name of its queue.
        self._sends: list[tuple[str, Coroutine[Any, Any, None]]] = []

    @property
    def messages(self) -> list[Message]:
        """The messages that are being handled."""
        return self._unit.messages

    @property
    def cancelled(self) -> bool:
        """Must the handler end?"""
        return self._unit.cancelled

    def send(
        self,
        queue: str,
        body: bytes | str | BaseModel | dict[str, Any] = b"",
        **fields: Unpack[MessageFields],
    ) -> Coroutine[Any, Any, None]:
        """As ``Unit.send``, to be awaited. A handler that ends before it has awaited this fails with
        TransactionUsage."""
        sending = asyncio.to_thread(self._unit.send, queue, body, **fields)
        self._sends.append((queue, sending))
        return sending

    async def _run(self, handler: Callable[..., Coroutine[Any, Any, Any]], *given: Any) -> None:
        """Run a handler. Raises TransactionUsage if it ends without having awaited its sends."""
        try:
            await handler(*given)
            for queue, sending in self._sends:
                if inspect.getcoroutinestate(sending) != inspect.CORO_CLOSED:
                    call = f"tx.send({queue!r}, ...)"
                    raise TransactionUsage(f"{call} was not awaited, so nothing was sent: write await {call}")
        finally:
            for _, sending in self._sends:
                if inspect.getcoroutinestate(sending) == inspect.CORO_CREATED:
                    sending.close()  # or else Python warns that it was never awaited
