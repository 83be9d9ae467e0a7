"""The queues that a worker reads: creates them, gives them their retry policies, and opens them.

``run`` prepares each consumer with it. The loops open queues again that were deleted, and ``failed_attempts`` reads the
policy after a failure. docs/worker.md says when a queue is created and when its policy is set. All loops of a worker
share the handles, so one that is reopened stays in use in the others until their reads fail, too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from mqredis.client import Queue, QueueManager
from mqredis.errors import (
    InvalidArgument,
    InvalidHandle,
    MqError,
    QueueExists,
    QueueNotAvailable,
    QueueNotFound,
)
from mqredis.models import RetryPolicy
from mqredis.operations.giveback import unattempted
from mqredis.operations.handle import close_handle, still_there
from mqredis.worker.consumer import Consumer
from mqredis.worker.outcomes import accept_lower_durability

R = TypeVar("R")
log = logging.getLogger("mqredis.worker")


class Queues:
    """The queues of all consumers of a worker. Every thread may call it."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        # The handles with which the loops read, by the names of the queues. Used under the lock.
        self._handles: dict[str, Queue] = {}
        self._lock = threading.Lock()

    def prepare(self, consumer: Consumer) -> tuple[list[Queue], list[Queue]]:
        """Create the queues that a consumer wants created, set the retry policies of its queues, and open them.

        Returns their handles, and those of their subqueues ``;lapsed``. Raises QueueNotFound, and InvalidArgument if
        one is a topic, or only some of them are transactional.
        """
        self._create(consumer)
        queues = [_existing(consumer, name, self.open) for name in consumer.queues]
        for queue in queues:
            if queue.handle.topic:
                raise InvalidArgument(
                    f"consumer {consumer.name}: queue {queue.name!r} is a topic, which stores nothing: subscribe a "
                    "queue to it, and read that"
                )
        if len({queue.handle.transactional for queue in queues}) > 1:
            raise InvalidArgument(f"the queues of {consumer.name} must be all transactional or none")
        lapsed = [self.open(f"{name};lapsed") for name in consumer.queues if ";" not in name]
        if consumer.dead_letter is not None:  # the error comes now rather than at the first failure
            _existing(consumer, consumer.dead_letter, self._manager.queue_info)
        for name in consumer.queues:
            self._set_policy(consumer, name)
        return queues, lapsed

    def open(self, name: str) -> Queue:
        """The handle with which loops read this queue. Raises QueueNotFound."""
        with self._lock:
            found = self._handles.get(name)
            if found is None or found.handle.closed:
                found = self._handles[name] = self._manager.open(name)
            return found

    def reopen(self, consumer: Consumer, queue: Queue) -> Queue:
        """The handle in place of one whose queue may have been deleted; the same if it was not. A queue that was
        created anew gets its retry policy as at the start. Raises QueueNotFound."""
        try:
            self._manager.run(still_there(queue.handle))
            return queue
        except (QueueNotAvailable, InvalidHandle):
            pass
        # Other loops may use the handle still, so it is not closed; the broker has forgotten it.
        with self._lock:
            if self._handles.get(queue.name) is queue:
                del self._handles[queue.name]
        found = self.open(queue.name)
        if found.handle.address.generation != queue.handle.address.generation:
            self._set_policy(consumer, queue.name)
        return found

    def refresh_policy(self, consumer: Consumer, queue: str) -> bool:
        """Read the policy again, since an operator may have changed or removed it. False if that fails."""
        name = queue.removesuffix(";lapsed")
        try:
            if name in consumer.policies:
                consumer.policies[name] = self._manager.queue_info(name).retry
        except MqError as error:
            log.debug("the retry policy of %s cannot be read: %s", name, error)
            return False
        return True

    def close(self) -> None:
        """Close the handles. Called when the loops have ended, or are not waited for any more: what they have locked
        still, and perhaps not begun, is given back without a failed attempt."""
        for queue in self._handles.values():
            self._manager.driver.cancel(queue.handle)
            try:
                self._manager.run(close_handle(queue.handle, unattempted()))
            except MqError as error:
                log.debug("queue %s could not be closed: %s", queue.name, error)

    def _create(self, consumer: Consumer) -> None:
        if consumer.create is None:
            return
        for name in (*consumer.queues, *([consumer.dead_letter] if consumer.dead_letter else [])):
            properties = dict(consumer.create)
            retry = properties.get("retry")
            if isinstance(retry, RetryPolicy) and name in consumer.queues:
                # As it will be set. Otherwise the next start would warn that the queue's policy is another one.
                properties["retry"] = consumer.policy(retry, properties.get("group_exclusive") is True)
            try:
                self._manager.create_queue(name, exist_ok=True, **properties)
            except QueueExists as error:
                log.warning("%s", error)

    def _set_policy(self, consumer: Consumer, name: str) -> None:
        """Give the queue the policy that the consumer chooses for it. Raises QueueNotFound."""
        if ";" in name:
            return  # a subqueue has no policy
        info = self._manager.queue_info(name)
        wanted = consumer.policies[name] = consumer.policy(info.retry, info.group_exclusive)
        if wanted != info.retry:
            accept_lower_durability(partial(self._manager.update_queue, name, retry=wanted))


def _existing(consumer: Consumer, name: str, look: Callable[[str], R]) -> R:
    """The properties of a queue that a consumer names. Raises QueueNotFound with what to do."""
    try:
        return look(name)
    except QueueNotFound:
        queue = name.partition(";")[0]
        raise QueueNotFound(
            f"consumer {consumer.name}: queue {queue!r} does not exist: create it with create={{}} of the "
            f"consumer, or with `mqredis queue create {queue}`"
        ) from None
