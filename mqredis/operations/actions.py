"""What every action of an operator has: a name for the log, an entry in it, and perhaps a token."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from mqredis import codec
from mqredis.errors import InvalidArgument
from mqredis.keys import ManagerKeys
from mqredis.models import Outgoing
from mqredis.operations import checks

#: An entry of the log is kept for 30 days.
KEPT_SECONDS = 30 * 86_400.0
#: Bytes of an entry's body; of longer texts the end is cut off.
_BODY = 3000


def operator_name(value: object) -> str:
    """The name of an operator, as the log shows it. Raises InvalidArgument."""
    if not isinstance(value, str) or not value or len(value) > 255 or checks.lone(value):
        raise InvalidArgument(
            f"the name of an operator must be a str of 1 to 255 characters, not {value!r:.40}"
        )
    return value


def check_token(value: object) -> None:
    """Raise InvalidArgument unless this may be the token of an action."""
    if not isinstance(value, str) or not value or len(value) > 255 or checks.lone(value):
        raise InvalidArgument(f"token must be a str of 1 to 255 characters, not {value!r:.40}")


def token_key(manager: ManagerKeys, token: str | None, *depends_on: object) -> tuple[str, ...]:
    """The key of a token, made from the token and everything that the action depends on; none without a token."""
    if token is None:
        return ()
    return (manager.token(hashlib.sha256(repr((token, *depends_on)).encode()).hexdigest()[:32]),)


def entry(operator: str, action: str, queue: str, details: Mapping[str, Any]) -> bytes:
    """An entry of the log as the scripts take it (lua/admin/operator.lua).

    The label is the action, the properties ``operator`` and ``queue`` say who acted on what, and the body has the
    details as JSON.
    """
    shown = {name: value for name, value in details.items() if value not in (None, "", [], ())}
    body = json.dumps(shown, default=str)
    if len(body) > _BODY:
        body = json.dumps({"cut": body[:_BODY]})
    message = Outgoing(
        body,
        content_type="application/json",
        label=action,
        priority=7,  # of a queue of the system, whose ids begin with 0
        properties={"operator": operator, "queue": queue},
        time_to_be_received=KEPT_SECONDS,
    )
    text, _ = codec.encode(message)
    return text[1:]  # without its priority
