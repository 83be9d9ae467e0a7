"""Exit codes of the command line.

``cli.app`` ends the program with them, and commands return them. Change together with: the table in docs/cli.md
(tests/docs/test_docs.py compares the numbers), and ``_USAGE`` in worker/processes.py (tests/worker/test_command.py).
"""

from __future__ import annotations

from enum import IntEnum

from mqredis.errors import (
    BrokerRefused,
    BrokerUnavailable,
    InvalidArgument,
    IoTimeout,
    MessageNotFound,
    MissingDependency,
    MqError,
    OutcomeUnknown,
    UnsafeServer,
)


class Exit(IntEnum):
    """How a command ended."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    NOTHING = 3
    UNAVAILABLE = 4
    FORBIDDEN = 5
    WARNINGS = 6
    BROKEN = 7
    INTERRUPTED = 130


EXITS = {
    Exit.DONE: "done",
    Exit.REFUSED: "the broker refused; the error names the reason",
    Exit.USAGE: "wrong arguments, or a file that cannot be opened",
    Exit.NOTHING: "no message is there, or none matches",
    Exit.UNAVAILABLE: "the server cannot be reached, or the outcome is unknown (see resolve)",
    Exit.FORBIDDEN: "the server refuses the user, or its settings would lose messages",
    Exit.WARNINGS: "doctor --strict: a warning of the server or of failed messages",
    Exit.BROKEN: "doctor: an invariant of the store is broken",
    Exit.INTERRUPTED: "interrupted by SIGINT or SIGTERM, at which worker, broker, console and exporter end with 0",
}


# Wrong arguments.
_USAGE = (InvalidArgument, MissingDependency)
# A file that cannot be opened, unless it is an error of mqredis: some derive from these, as AccessDenied does.
_FILES = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


def exit_of(error: BaseException) -> Exit:
    """The exit code for an error."""
    if isinstance(error, IoTimeout | MessageNotFound):
        return Exit.NOTHING
    if isinstance(error, BrokerUnavailable | OutcomeUnknown):
        return Exit.UNAVAILABLE
    if isinstance(error, BrokerRefused | UnsafeServer):
        return Exit.FORBIDDEN
    is_file = isinstance(error, _FILES) and not isinstance(error, MqError)
    return Exit.USAGE if is_file or isinstance(error, _USAGE) else Exit.REFUSED
