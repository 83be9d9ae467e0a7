"""The text of a subscription, as ``lua/features/subscription.lua`` reads it: field ``sub:<queue>`` of a topic's hash.

``tests/contract/test_stored_texts.py`` compares both sides.
"""

from __future__ import annotations


def format_subscription(selector: str = "", program: bytes = b"") -> bytes:
    """``selector`` and the program that the server runs for it (:mod:`mqredis.selector`); empty: every message."""
    text = selector.encode()
    return b"%d:%b%b" % (len(text), text, program)


def parse_subscription(text: bytes) -> tuple[str, bytes]:
    """Selector and program. Raises ValueError for any other text."""
    size, colon, rest = text.partition(b":")
    if not (colon and size.isdigit() and len(size) < 10 and int(size) <= len(rest)):
        raise ValueError(f"{text!r:.80} is no subscription")
    return rest[: int(size)].decode(), rest[int(size) :]
