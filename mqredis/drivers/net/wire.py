"""The wire format: packing of script calls and commands, and classification of error replies.

Nothing here does input or output; both drivers share it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Any

from redis import exceptions as rx

from mqredis.keys import KeySet
from mqredis.scripts import Form
from mqredis.steps import Arg

#: Requests up to this size are sent as one piece.
JOINED = 262_144
#: Arguments of this size and above are sent as they are, instead of being copied into one buffer.
LARGE = 16_384

#: Up to so many arguments are packed one by one; more of them are packed together (``_bulks``).
_SINGLE = 8

#: What redis-py raises for a transport or protocol failure or an error reply.
REDIS_ERRORS = (rx.RedisError, OSError, EOFError)


#: The headers of most requests and strings, since formatting a number costs as much as a function call.
_FEW, _KEPT = 64, 1024
_COUNTS = [b"*%d\r\n" % number for number in range(_FEW)]
SIZES = [b"$%d\r\n" % number for number in range(_KEPT)]


def bulk(data: bytes) -> bytes:
    """One bulk string."""
    size = len(data)
    return (SIZES[size] if size < _KEPT else b"$%d\r\n" % size) + data + b"\r\n"


def _head(keys: KeySet, form: Form) -> bytes:
    parts = [bulk(form.verb.encode()), bulk(form.name.encode()), bulk(b"%d" % len(keys.keys))]
    parts += [bulk(key.encode()) for key in keys.keys]
    return b"".join(parts)


def pack(
    keys: KeySet, form: Form, token: bytes, args: Sequence[Arg], fixed: int = 0
) -> list[bytes | memoryview]:
    """Pack ``EVALSHA sha n keys... slot sequence args...``, or ``FCALL name ...``.

    Everything up to the keys is equal in each call of a script on a queue, so it is kept in the key set; so are the
    first ``fixed`` arguments, which are equal in many. ``token`` is the packed pair of slot and sequence.
    """
    kept = keys.packed
    head = kept.get(form.name)
    if head is None:
        head = kept[form.name] = _head(keys, form)
    number = len(keys.keys) + 5 + len(args)
    parts: list[bytes | memoryview] = [
        _COUNTS[number] if number < _FEW else b"*%d\r\n" % number,
        head,
        token,
    ]
    if type(args) is not tuple:
        args = tuple(args)
    if fixed:
        words = args[:fixed]
        parts.append(kept.get(words) or _keep(kept, words))
        args = args[fixed:]
    large = 0
    if len(args) > _SINGLE:
        rest, large = _bulks(args)
        parts += rest
    else:
        for arg in args:
            data = arg if type(arg) is bytes else arg.encode() if type(arg) is str else _octets(arg)
            size = len(data)
            if size < _KEPT:
                parts += (SIZES[size], data, b"\r\n")
            else:
                parts += (b"$%d\r\n" % size, data, b"\r\n")
                if size >= LARGE:
                    large += size
    return _gather(parts) if large >= JOINED else [b"".join(parts)]


def _keep(kept: dict[Any, bytes], words: tuple[Arg, ...]) -> bytes:
    """Pack the first arguments of a call, and keep them for the next call with the same ones."""
    if len(kept) > _FEW:  # calls with ever other leases or counts must not fill the memory
        kept.clear()
    found = kept[words] = b"".join(bulk(_octets(word)) for word in words)
    return found


def _octets(arg: Arg) -> bytes:
    """The bytes of an argument of any type."""
    if isinstance(arg, bytes):
        return bytes(arg)
    return b"%d" % arg if isinstance(arg, int) else str(arg).encode()


def _bulks(args: Sequence[Arg]) -> tuple[list[bytes], int]:
    """Pack arguments as bulk strings, without a loop over those that are bytes. Returns the parts and the total size.

    hiredis formats each length with the C library, which costs twice as much.
    """
    octets: Sequence[Any] = args
    if not _BYTES.issuperset(map(type, args)):
        octets = [arg if type(arg) is bytes else _octets(arg) for arg in args]
    sizes = list(map(len, octets))
    parts = [b"\r\n"] * (3 * len(sizes))
    if max(sizes, default=0) < _KEPT:
        parts[::3] = map(SIZES.__getitem__, sizes)
    else:
        parts[::3] = [SIZES[size] if size < _KEPT else b"$%d\r\n" % size for size in sizes]
    parts[1::3] = octets
    return parts, sum(sizes)


def pack_fields(verb: str, key: str, fields: Sequence[bytes]) -> bytes:
    """Pack a command such as ``HMGET key field ...`` with thousands of fields. Fields of one length are packed
    faster."""
    sizes = set(map(len, fields))
    if len(sizes) == 1:
        between = b"\r\n$%d\r\n" % sizes.pop()
        rest = between[2:] + between.join(fields) + b"\r\n"
    else:
        rest = b"".join(_bulks(fields)[0])
    return b"*%d\r\n%b%b%b" % (len(fields) + 2, bulk(verb.encode()), bulk(key.encode()), rest)


def packed_command(args: Sequence[str | bytes]) -> bytes:
    """Pack a plain command."""
    bulks = [bulk(arg if isinstance(arg, bytes) else arg.encode()) for arg in args]
    return b"*%d\r\n%b" % (len(bulks), b"".join(bulks))


#: Error replies that have their own classes in redis-py, by their first words. All others are told by their text.
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


_BYTES = frozenset((bytes,))


def digits(args: Sequence[Arg]) -> tuple[str | bytes, ...]:
    """Arguments with numbers as bytes: hiredis (3.5) crashes when a signal handler raises while it packs a number."""
    return tuple([arg if not isinstance(arg, int) else b"%d" % arg for arg in args])


def _gather(parts: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    out: list[bytes | memoryview] = []
    small: list[bytes | memoryview] = []
    for part in parts:
        if len(part) < LARGE:
            small.append(part)
            continue
        out += (b"".join(small), part)
        small = []
    out.append(b"".join(small))
    return out


class Fault(Enum):
    """What went wrong with one try of one call."""

    LOST = "lost"  # the connection failed: if the request had been sent, it may have been carried out
    NOSCRIPT = "noscript"  # the server does not know the script; nothing ran
    BUSY = "busy"  # not now: nothing ran, try again later
    MOVED = "moved"  # not here, or not any more: nothing ran, find the right node
    ASK = "ask"  # the slot is on its way to another node; nothing ran
    FULL = "full"  # out of memory; nothing ran
    REFUSED = "refused"  # credentials or permissions; nothing ran
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

#: The reply of a server with functions to the call of a function that it does not have.
NO_FUNCTION = "Function not found"
#: The number of the database in the URL is too high for the server.
_NO_DATABASE = "DB index is out of range"

#: Redis 6.2 on a command or key inside a script; newer ones begin with NOPERM.
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
