"""The parts of every action of an operator: a name for the log, an entry in it, and an optional token.

``bulk``, ``force``, ``schedules`` and ``workers`` make their entries and tokens with it. ``Operator.begin`` and ``end``
write entries for actions that other calls carry out, as the command line (``cli/author.py``) and the console
(``console/pages/action.py``) do.

An action is known by its name in the log: ``console/sentences.py`` has a sentence for each name that the operations use
(``tests/contract/test_arguments.py``). The scripts read the entry's fields (``lua/admin/operator.lua``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from mqredis import codec, keys
from mqredis.commands import actions as commands
from mqredis.commands.actions import Recorded
from mqredis.commands.address import Address
from mqredis.errors import InvalidArgument
from mqredis.keys import ManagerKeys, path_of
from mqredis.models import Outgoing
from mqredis.operations import checks
from mqredis.operations.context import Context
from mqredis.operations.queue_call import QueueCall
from mqredis.steps import Steps, procedure

Details = Mapping[str, Any]

# An entry of the log is kept for 30 days.
KEPT_SECONDS = 30 * 86_400.0
# Bytes of an entry's body; of longer texts the end is cut off. Lists of messages omit bodies of more than 4096 bytes.
_BODY = 3000
# Characters to which callers of ``end`` cut a text of an outcome, each of which takes up to six bytes of JSON (twelve
# only beyond U+FFFF).
OUTCOME_TEXT = 400


class Author(NamedTuple):
    """Who acts, as the log shows it."""

    name: str
    # What the action was made with: "api", "cli" or "console".
    source: str


def author(name: object, source: object) -> Author:
    """Raises InvalidArgument for a name or a source that the log cannot show."""
    shown = checks.name(name, "the name of an operator")
    return Author(shown, text(source, "the source of an operator", 40))


def text(value: object, what: str, most: int = 255) -> str:
    """A printable text of an operator. Raises InvalidArgument."""
    # No surrogate is printable.
    if not isinstance(value, str) or len(value) > most or not value.isprintable():
        raise InvalidArgument(
            f"{what} must be a printable str of at most {most} characters, not {value!r:.40}"
        )
    return value


def token_key(manager: ManagerKeys, token: str | None, *depends_on: object) -> tuple[str, ...]:
    """The key of a token, made from the token and everything that the action depends on; none without a token.

    A second call with the same key does nothing and gets the first reply, for a day (lua/admin/operator.lua), so each
    argument that changes what an action does has to be among ``depends_on``. Raises InvalidArgument.
    """
    if token is None:
        return ()
    checks.name(token, "token")
    return (manager.token(hashlib.sha256(repr((token, *depends_on)).encode()).hexdigest()[:32]),)


def entry(operator: Author, action: str, queue: str, details: Details, call: str = "") -> bytes:
    """An entry of the log as the scripts take it (lua/admin/operator.lua).

    The label is the action, the properties ``operator``, ``source`` and ``queue`` say who acted on what, and the body
    has the details as JSON, without those that are empty. ``call``: a property that the entries of one action have in
    common, where these are several (:func:`begin` and :func:`end`).
    """
    shown = {name: value for name, value in details.items() if value not in (None, "", [], ())}
    body = json.dumps(shown, default=str)
    if len(body) > _BODY:
        body = json.dumps({"cut": body[: _BODY // 2]})  # quotes in it take two bytes
    message = Outgoing(
        body,
        content_type="application/json",
        label=action,
        priority=7,  # lookup ids in queues of the system begin with 0
        properties={"operator": operator.name, "source": operator.source, "queue": queue}
        | ({"call": call} if call else {}),
        time_to_be_received=KEPT_SECONDS,
    )
    encoded, _ = codec.encode(message)
    return encoded[1:]  # without its priority


@procedure
def begin(
    context: Context, operator: Author, action: object, queue: object, token: str, details: Details | None
) -> Steps[dict[str, Any] | None]:
    """Log that an action begins. Returns None. If it had begun before: its outcome or {}, and nothing is logged.

    Raises InvalidArgument, InvalidName.
    """
    said = yield from _record(context, operator, action, queue, token, details or {}, "")
    return None if said.now else json.loads(said.outcome or "{}")


@procedure
def end(
    context: Context,
    operator: Author,
    action: object,
    queue: object,
    token: str,
    outcome: Details,
    changed: int,
) -> Steps[None]:
    """Log the outcome of an action that ``begin`` has begun, with the same action, queue and token, which make its key.

    ``changed``: how many messages it has changed. Raises InvalidArgument, also if the outcome is too long.
    """
    if len(written := _json(outcome)) > _BODY:
        raise InvalidArgument(f"the outcome takes {len(written)} bytes of JSON; {_BODY} are allowed")
    count = checks.count(changed, "changed", 1 << 53, least=0)
    yield from _record(context, operator, action, queue, token, outcome, written, count)


def _record(
    context: Context,
    operator: Author,
    action: object,
    queue: object,
    token: str,
    details: Details,
    outcome: str,
    changed: int = 0,
) -> Steps[Recorded]:
    """Log the beginning of an action, or its end with ``outcome``, a text of JSON."""
    checks.name(token, "token")
    if not (name := text(action, "the name of an action")):
        raise InvalidArgument("the name of an action is empty")
    path = path_of(queue) if queue is not None else ""
    _json(details)
    extra = token_key(context.keys, token, "record", name, path)
    written = entry(operator, name, path, details, call=extra[0][-12:])
    log = Address(context.keys, keys.ACTIONS, extra=extra)
    return (yield from QueueCall(log, commands.record(log, written, outcome, changed)))


def _json(details: object) -> str:
    """Details of an entry as JSON. Raises InvalidArgument."""
    if not isinstance(details, Mapping) or not all(isinstance(name, str) for name in details):
        raise InvalidArgument(f"the details of an action are a mapping with names, not {details!r:.40}")
    try:
        return json.dumps(dict(details), default=str)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"the details of an action cannot be written as JSON: {error}") from None
