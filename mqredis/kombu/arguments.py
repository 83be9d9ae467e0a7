"""AMQP arguments of queues: which of them the broker supports, and where they are stored.

``store`` checks and writes arguments with it, and ``channel`` reads them. docs/celery.md has a table of them (Queue
arguments).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kombu.exceptions import ChannelError

from mqredis.models import RetryPolicy
from mqredis.models.queue import MAX_LABEL

# The beginning of a queue's label. The declared arguments follow as JSON, so that every sender can read them. Labels
# are stored: a release must read those of earlier ones.
PREFIX = "kombu "
# How often a message comes back before its queue gives up: RabbitMQ's default for quorum queues. AMQP returns messages
# at once, so the policy has no rests.
DELIVERY_LIMIT = 20


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared arguments of a queue. None: not declared.

    They are stored as JSON in the label of the queue. A release that does not know one of the fields
    reads none of them.
    """

    expires_ms: int | None = None
    """x-expires: milliseconds without use after which the queue is deleted."""
    ttl_ms: int | None = None
    """x-message-ttl: milliseconds after which a message expires."""
    dead_exchange: str | None = None
    """x-dead-letter-exchange: where rejected and expired messages go; "" is the default exchange."""
    dead_key: str | None = None
    """x-dead-letter-routing-key; None: that of each message."""

    def label(self) -> str:
        """The arguments as the label of a queue, such as ``kombu {"ttl_ms": 1000}``; "" if there are none."""
        declared = {name: value for name, value in asdict(self).items() if value is not None}
        text = PREFIX + json.dumps(declared) if declared else ""
        if len(text) > MAX_LABEL:
            raise refused("the names of exchange and routing key of dead letters are too long")
        return text


def read_label(label: str) -> Declared:
    """The arguments in the label of a queue; none if kombu has not declared the queue."""
    if not label.startswith(PREFIX):
        return Declared()
    try:
        return Declared(**json.loads(label.removeprefix(PREFIX)))
    except (ValueError, TypeError):
        return Declared()


def split(arguments: Mapping[str, Any]) -> tuple[Declared, dict[str, Any]]:
    """Split the arguments of a declaration: those for the label, and the properties of the queue.

    Example: ``{"x-message-ttl": 1000, "x-delivery-limit": 3}`` gives ``Declared(ttl_ms=1000)`` and
    ``{"retry": RetryPolicy(immediate=3, final="poison")}``; without x-delivery-limit ``store`` adds the default policy.
    Arguments of other names are ignored (docs/celery.md). Raises ChannelError (540) for a value of these arguments that
    the broker does not support.
    """
    exchange, key = arguments.get("x-dead-letter-exchange"), arguments.get("x-dead-letter-routing-key")
    if key is not None and exchange is None:
        raise refused("x-dead-letter-routing-key needs x-dead-letter-exchange")
    properties = _quotas(arguments)
    limit = _number(arguments, "x-delivery-limit", least=-1)
    if limit is not None:
        properties["retry"] = retry_policy(exchange is not None, limit)
    return Declared(
        expires_ms=_number(arguments, "x-expires"),
        ttl_ms=_number(arguments, "x-message-ttl"),
        dead_exchange=None if exchange is None else str(exchange),
        dead_key=None if key is None else str(key),
    ), properties


def _quotas(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The quotas of a queue with ``x-max-length`` and ``x-max-length-bytes``."""
    overflow = arguments.get("x-overflow")
    if overflow == "reject-publish-dlx":
        raise refused("x-overflow = reject-publish-dlx: a message that is refused was never there")
    quotas: dict[str, Any] = {}
    for name, quota in (("x-max-length", "quota_messages"), ("x-max-length-bytes", "quota_bytes")):
        if arguments.get(name) is None:
            continue
        if overflow != "reject-publish":
            raise refused(
                f"{name} takes the oldest message away when the queue is full, and this broker refuses the newest: "
                "say so with x-overflow = reject-publish"
            )
        quotas[quota] = _number(arguments, name)
    return quotas


def retry_policy(dead_letters: bool, limit: int = DELIVERY_LIMIT) -> RetryPolicy | None:
    """The retry policy of a queue with ``x-delivery-limit``: messages may return ``limit`` times; -1: without a limit.

    A message that comes back once more goes to the dead letter exchange if there is one, or else to ``;poison``. Raises
    ChannelError (540) for a limit of more than 1000.
    """
    if limit == -1:
        return None
    if limit > 1000:
        raise refused(f"x-delivery-limit must be from 0 to 1000, or -1 for no limit, not {limit}")
    return RetryPolicy(immediate=limit, final="dead_letter" if dead_letters else "poison")


def _number(arguments: Mapping[str, Any], name: str, least: int = 0) -> int | None:
    """A whole number; None if it is not among the arguments. Raises ChannelError (540) for anything else."""
    value = arguments.get(name)
    if value is None:
        return None
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = least - 1
    if number < least:
        raise refused(f"{name} must be a whole number of at least {least}, not {value!r:.40}")
    return number


def refused(why: str) -> ChannelError:
    """AMQP's NOT_IMPLEMENTED."""
    return ChannelError(f"NOT_IMPLEMENTED - {why}", (50, 10), "Channel.queue_declare", "540")
