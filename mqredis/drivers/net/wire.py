"""The wire format: packing of script calls and commands, and classification of error replies.

``attempt`` packs script calls with it; the pools, ``net.aio``, ``net.blocking``, ``net.endpoint`` and ``durability``
pack commands. ``attempt`` decides what a ``Fault`` means for a call; ``calls_aio``, ``greeting`` and ``deploy`` look at
some, too.

Change together with: ``Attempt.failed``, ``Attempt.failed_load`` and ``_put_away`` in ``calls_aio``, which decide by
the ``Fault``. tests/drivers/test_faults.py has each code with its ``Fault``.

Nothing here does input or output; both drivers share it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Any

import hiredis
from redis import exceptions as rx

from mqredis.keys import KeySet
from mqredis.scripts import Form
from mqredis.steps import Arg

# What redis-py raises for a transport or protocol failure or an error reply.
REDIS_ERRORS = (rx.RedisError, OSError, EOFError)


def address_of(name: object) -> str:
    """The IP address in the name of a socket; "" if it has none, as a unix socket."""
    return str(name[0]) if isinstance(name, tuple) else ""


def pack(keys: KeySet, form: Form, slot: str, sequence: str, args: Sequence[Arg]) -> bytes:
    """Pack ``EVALSHA sha n keys... slot sequence args...``, or ``FCALL name ...``.

    Everything up to the keys is equal in each call of a script on a queue, so it is kept in the key set.
    """
    head, count = keys.packed.get(form.name) or _keep_head(keys, form)
    words: Any = (slot, sequence, *args)
    # Begins with the number of these words, in place of which the number of all words is sent.
    _, _, packed = hiredis.pack_command(words).partition(b"\n")
    return b"".join((b"*%d\r\n" % (count + len(args)), head, packed))


def _keep_head(keys: KeySet, form: Form) -> tuple[bytes, int]:
    """Keep the packed head of a script's calls with these keys, and the number of words in it and in the token."""
    words = (form.verb, form.name, str(len(keys.keys)), *keys.keys)
    found = keys.packed[form.name] = packed_command(words).partition(b"\n")[2], len(words) + 2
    return found


def packed_command(args: Sequence[Arg | int]) -> bytes:
    """Pack a plain command. Its numbers are made texts first (:data:`mqredis.steps.Arg`)."""
    words: Any = tuple([b"%d" % arg if isinstance(arg, int) else arg for arg in args])
    packed: bytes = hiredis.pack_command(words)
    return packed


# Error replies that have their own classes in redis-py, by their first words. All others are told by their text.
_ERRORS: tuple[tuple[str, type[rx.RedisError]], ...] = (
    ("NOAUTH", rx.AuthenticationError),
    ("WRONGPASS", rx.AuthenticationError),
    ("ERR AUTH ", rx.AuthenticationError),
    ("ERR invalid password", rx.AuthenticationError),
    ("NOPERM", rx.NoPermissionError),
    ("ERR max number of clients reached", rx.ConnectionError),
)


def reply_error(text: str) -> rx.RedisError:
    """The exception for an error reply."""
    for words, kind in _ERRORS:
        if text.startswith(words):
            return kind(text)
    return rx.ResponseError(text)


class Fault(Enum):
    """What went wrong with one try of one call."""

    LOST = "lost"  # the connection failed: if the request had been sent, it may have been carried out
    NOSCRIPT = "noscript"  # the server does not know the script; nothing ran
    BUSY = "busy"  # not now: nothing ran, try again later
    MOVED = "moved"  # not here, or not any more: nothing ran, find the right node
    ASK = "ask"  # the slot is on its way to another node; nothing ran
    FULL = "full"  # out of memory; nothing ran
    REFUSED = "refused"  # credentials or permissions; nothing ran: ``preflight`` has checked what scripts run
    NOT_READY = "not ready"  # the server cannot write to its disk: nothing ran, try again later
    BUG = "bug"  # the script failed, which it never should


_BY_CODE = {
    "NOSCRIPT": Fault.NOSCRIPT,
    "BUSY": Fault.BUSY,
    "LOADING": Fault.BUSY,
    "TRYAGAIN": Fault.BUSY,
    "CLUSTERDOWN": Fault.MOVED,
    "MASTERDOWN": Fault.MOVED,
    "READONLY": Fault.MOVED,
    "UNBLOCKED": Fault.MOVED,
    "MOVED": Fault.MOVED,
    "ASK": Fault.ASK,
    "OOM": Fault.FULL,
    "NOAUTH": Fault.REFUSED,
    "WRONGPASS": Fault.REFUSED,
    "NOPERM": Fault.REFUSED,
    "DENIED": Fault.REFUSED,
    "MISCONF": Fault.NOT_READY,
    # A primary that was cut off from its replicas, and may have been replaced.
    "NOREPLICAS": Fault.MOVED,
}

# redis-py takes the code off the text of the errors it knows.
_BY_CLASS: tuple[tuple[type[Exception], Fault], ...] = (
    (rx.NoScriptError, Fault.NOSCRIPT),
    (rx.BusyLoadingError, Fault.BUSY),
    (rx.TryAgainError, Fault.BUSY),
    (rx.MovedError, Fault.MOVED),
    (rx.AskError, Fault.ASK),
    (rx.ClusterDownError, Fault.MOVED),
    (rx.ReadOnlyError, Fault.MOVED),
    (rx.OutOfMemoryError, Fault.FULL),
    (rx.NoPermissionError, Fault.REFUSED),
    (rx.AuthenticationError, Fault.REFUSED),
    (rx.AuthorizationError, Fault.REFUSED),
    (rx.AuthenticationWrongNumberOfArgsError, Fault.REFUSED),
)

# The reply of a server with functions to the call of a function that it does not have.
NO_FUNCTION = "Function not found"
# The number of the database in the URL is too high for the server.
_NO_DATABASE = "DB index is out of range"

# Redis 6.2 on a command or key inside a script; newer ones begin with NOPERM.
_NO_RIGHT = "The user executing the script can't"

# Redis 6.2 wraps errors met in a script: "ERR Error running script (call to f_..): @user_script:12: -OOM ..."
# or "... @user_script: 12: -READONLY ...".
_WRAPPED = re.compile(r"@user_script: ?\d+: -([A-Z]+) ")


def fault_of(error: BaseException) -> Fault:
    """Classify an exception of redis-py or of the operating system."""
    inner = error.args[0] if error.args else None
    if isinstance(error, rx.ConnectionError) and isinstance(inner, Exception):
        return fault_of(inner)  # redis-py's asyncio connection wraps what fails while connecting
    for cls, fault in _BY_CLASS:
        if isinstance(error, cls):
            return fault
    text = str(error)
    if isinstance(error, rx.ResponseError):
        code = text.partition(" ")[0].lstrip("-")
        found = _BY_CODE.get(code)
        if text.removeprefix("ERR ").startswith(NO_FUNCTION):
            return Fault.NOSCRIPT
        if _NO_DATABASE in text or _NO_RIGHT in text:
            return Fault.REFUSED
        if found is None and (wrapped := _WRAPPED.search(text)):
            found = _BY_CODE.get(wrapped.group(1))
        return found or Fault.BUG
    if "max number of clients reached" in text:
        return Fault.BUSY
    return Fault.LOST


def forbidden(error: BaseException) -> bool:
    """Did the server refuse a command because the user has no right to it?"""
    return isinstance(error, rx.NoPermissionError) or str(error).startswith("NOPERM")


# "MOVED 3999 127.0.0.1:6381"; redis-py 6 and above take the first word off.
_REDIRECT = re.compile(r"^(?:MOVED |ASK )?\d+ (\S*):(\d+)$")


def redirect(error: BaseException) -> tuple[str, int] | None:
    """The node that MOVED or ASK names, if the error is one of the two. An empty host means the same host."""
    found = _REDIRECT.match(str(error)) if isinstance(error, rx.ResponseError) else None
    return (found.group(1), int(found.group(2))) if found else None


def as_text(value: object) -> str:
    """Text of a reply element."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
