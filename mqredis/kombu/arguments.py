"""Arguments of queues in AMQP's names: which of them the broker keeps, and where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kombu.exceptions import ChannelError

#: A queue's label begins so, and goes on with what was declared, as JSON: every sender can read it there.
PREFIX = "kombu "
_LONGEST_LABEL = 249


@dataclass(frozen=True, slots=True)
class Declared:
    """What was declared about a queue; None: nothing."""

    #: x-expires: the queue goes when nobody has used it for so long.
    expires_ms: int | None = None
    #: x-message-ttl.
    ttl_ms: int | None = None
    #: x-dead-letter-exchange: where rejected and expired messages go; "" is the default exchange.
    dead_exchange: str | None = None
    #: x-dead-letter-routing-key; None: that of each message.
    dead_key: str | None = None

    def label(self) -> str:
        """It as the label of a queue."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        text = PREFIX + json.dumps(given) if given else ""
        if len(text) > _LONGEST_LABEL:
            raise refused("the names of exchange and routing key of dead letters are too long")
        return text


def declared_in(label: str) -> Declared:
    """What the label of a queue says; nothing if it is none of ours."""
    if not label.startswith(PREFIX):
        return Declared()
    try:
        return Declared(**json.loads(label.removeprefix(PREFIX)))
    except (ValueError, TypeError):
        return Declared()


def declared(arguments: Mapping[str, Any]) -> tuple[Declared, dict[str, Any]]:
    """What to keep, and the quotas of the queue. Raises ChannelError (540) for what the broker does otherwise."""
    overflow = arguments.get("x-overflow")
    quotas: dict[str, int] = {}
    for name, quota in (("x-max-length", "quota_messages"), ("x-max-length-bytes", "quota_bytes")):
        if arguments.get(name) is not None:
            quotas[quota] = int(arguments[name])
            if overflow != "reject-publish":
                raise refused(
                    f"{name} takes the oldest message away when the queue is full, and this broker refuses the newest: "
                    "say so with x-overflow = reject-publish"
                )
    if overflow == "reject-publish-dlx":
        raise refused("x-overflow = reject-publish-dlx: a message that is refused was never there")
    exchange, key = arguments.get("x-dead-letter-exchange"), arguments.get("x-dead-letter-routing-key")
    if key is not None and exchange is None:
        raise refused("x-dead-letter-routing-key needs x-dead-letter-exchange")
    return Declared(
        expires_ms=_milliseconds(arguments, "x-expires"),
        ttl_ms=_milliseconds(arguments, "x-message-ttl"),
        dead_exchange=None if exchange is None else str(exchange),
        dead_key=None if key is None else str(key),
    ), quotas


def _milliseconds(arguments: Mapping[str, Any], name: str) -> int | None:
    value = arguments.get(name)
    return None if value is None else int(value)


def refused(why: str) -> ChannelError:
    """AMQP's NOT_IMPLEMENTED."""
    return ChannelError(f"NOT_IMPLEMENTED - {why}", (50, 10), "Channel.queue_declare", "540")
