"""Instructions with which a reader gives a message back: does the delivery count as an attempt, and why did it fail?

Workers (their loops and ``worker.failed_attempts``), kombu and ``cli.common`` use it, and locked messages
(``asyncio.locked``) describe errors with it. Reads that end before their caller has the messages (``interruption``,
``browser``) give them back with ``unattempted``. The console finds the properties of failed messages by ``REPORT``.

The texts are settlement actions (``settle``, lua/core/settle) and verdicts of a transaction's end
(``transaction.End``); lua/core/release reads them. Plain readers know only ABORT: ``LockedMessage.abort``, perhaps with
a reason, and the abort of a transaction.
"""

from __future__ import annotations

from collections.abc import Mapping

from mqredis.commands.settlement import ABORT, FAIL, RETURN
from mqredis.errors import SealBroken
from mqredis.models import PropertyValue
from mqredis.models.properties import write_properties
from mqredis.models.text import milliseconds
from mqredis.operations import checks

# With this the names of the properties begin that a failed message gets (lua/features/failure).
REPORT = "failure_"
# The longest text of an error, in characters.
MAX_ERROR = 1000


def unattempted(rest: float | None = None) -> str:
    """The message was not handled, so this delivery is no attempt. ``rest``: seconds before it is available again."""
    return RETURN if rest is None else f"{RETURN}{milliseconds(rest)}"


def isolated() -> str:
    """Messages failed together, which is no attempt of each: it goes to ``;lapsed`` at once if its policy isolates."""
    return f"{RETURN}0i"  # no rest, and the letter that isolates


def failed(reason: str, about: Mapping[str, PropertyValue]) -> str:
    """An attempt has failed: the queue's retry policy decides. ``about``: properties that a failed message gets."""
    return _instruction(ABORT, reason, about)


def final_failure(reason: str, about: Mapping[str, PropertyValue]) -> str:
    """No further attempt can succeed: the queue's retry policy ends at once."""
    return _instruction(FAIL, reason, about)


def description(error: BaseException, *, sealed: bool) -> str:
    """The type and the text of an error. ``sealed``: bodies are secret, and the text may quote one, so it is left out,
    unless a body could not be opened."""
    kind = type(error).__name__
    return kind if sealed and not isinstance(error, SealBroken) else f"{kind}: {text_of(error)}"[:MAX_ERROR]


def text_of(error: BaseException) -> str:
    """The text of an error, whose class may be one of the application that fails to give it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the error is the application's; its text must not cause another one
        return "an error without a text"


def _instruction(action: str, reason: str, about: Mapping[str, PropertyValue]) -> str:
    known = {f"{REPORT}{name}": value for name, value in about.items()}
    text = action + checks.reason(reason) + write_properties(known)
    return text.encode("utf-8", "replace").decode()  # an exception's text may hold a lone surrogate
