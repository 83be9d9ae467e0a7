"""Format of a subscription: the field ``sub:<queue>`` of a topic's hash, which ``lua/features/subscription.lua`` reads.

``operations.topics`` formats, ``commands.features`` and the doctor parse it.

``tests/contract/test_stored_texts.py`` compares both sides.
"""

from __future__ import annotations


def format_subscription(selector: str = "", program: bytes = b"") -> bytes:
    """``<bytes of selector>:<selector><program>``. Without both every message matches.

    ``program``: the compiled selector (:mod:`mqredis.selector`), which the server runs.
    """
    encoded = selector.encode()
    return b"%d:%b%b" % (len(encoded), encoded, program)


def parse_subscription(stored: bytes) -> tuple[str, bytes]:
    """Selector and program. Raises ValueError if ``stored`` is malformed."""
    size, colon, rest = stored.partition(b":")
    if not (colon and size.isdigit() and len(size) < 10 and int(size) <= len(rest)):
        raise ValueError(f"{stored!r:.80} is not a valid subscription")
    return rest[: int(size)].decode(), rest[int(size) :]
