"""The operator of a command, and the entries that commands write to the log of actions.

``logged`` is for calls of ``QueueManager`` (``admin``, ``queues``, ``topics``, ``transfer``): it writes one entry
before and one behind them. ``operator_of`` is for methods of ``Operator`` (``operator``, ``schedules``), whose scripts
write their entry themselves: with ``logged`` around them the action would be logged twice. ``console.sentences`` shows
the result as the block told it. The names of these actions are for people only: nothing reads them.
"""

from __future__ import annotations

import getpass
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from mqredis.cli.common import Arguments
from mqredis.client import QueueManager
from mqredis.client.operator import Operator
from mqredis.errors import MqError
from mqredis.operations.actions import OUTCOME_TEXT


def operator_option(parser: Any) -> None:
    """The option of every command that the log of actions shows."""
    parser.add_argument(
        "--operator", metavar="NAME", help="who acts, for the log (default: user name and host)"
    )


def operator_options(parser: Any) -> None:
    """The options of the actions of an operator that a token can keep from running twice."""
    operator_option(parser)
    parser.add_argument("--token", metavar="TEXT", help="with this token the action runs once within a day")


def operator_of(arguments: Arguments, qm: QueueManager) -> Operator:
    """The operator that the options name."""
    return qm.operator(arguments.operator or f"{_user()}@{socket.gethostname()}", source="cli")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a user id without a name
        return "unknown"


@contextmanager
def logged(
    arguments: Arguments,
    qm: QueueManager,
    action: str,
    queue: str | None = None,
    *,
    changes: bool = True,
    **details: Any,
) -> Iterator[Callable[..., None]]:
    """Log the action of the ``with`` block and its result; without ``changes``, log nothing.

    The block calls the function that it gets with the text of its result, and the number of messages that it changed.
    An action of several steps calls it after each, so that the log has the number also if a later one fails.
    """
    result, count = "done", 0

    def set_result(text: str, changed: int = 0) -> None:
        nonlocal result, count
        result, count = text, changed

    if not changes:
        yield set_result
        return
    operator, token = operator_of(arguments, qm), secrets.token_urlsafe(18)
    operator.begin(action, queue, token=token, details=details)
    try:
        yield set_result
    except BaseException as error:
        with suppress(MqError):  # the first error is the one to show
            outcome = {"error": f"{type(error).__name__}: {error}"[:OUTCOME_TEXT]}
            operator.end(action, queue, token=token, outcome=outcome, changed=count)
        raise
    operator.end(action, queue, token=token, outcome={"result": result[:OUTCOME_TEXT]}, changed=count)
