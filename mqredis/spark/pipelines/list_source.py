"""A Redis list that is copied while its consumers continue to pop from it.

``migrate`` uses it. The broker keeps the versions of migrations that are continued, so WINDOW, _MARK_BITS and ``_mark``
stay as they are.

Positions count from the end at which consumers pop, so pushes do not change them, but pops do. The items that were
copied last are therefore recognised by a hash, which is stored with their number. Each page is read together with
these items. If they are not at their position they are searched for. If they are not found, or may be at several
positions, the copy ends with an error.

Two things are not noticed, and docs/pipelines.md says so: a pop while a call copies items that repeat themselves,
since their hash stays the same; and a second place of the last items more than a page below the first one. To search
all pages would find more places that only have the same hash, of so few bits, and refuse lists for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

from mqredis.errors import InvalidArgument

# The items that are recognised: this many, or all that were copied.
WINDOW = 16
# A version is the number of items copied, and in its low bits their mark. Both together stay below 2^53.
_MARK_BITS = 26
_MOST = 1 << 27


class ListSource:
    """A list. ``newest_left``: producers push on the left, consumers pop on the right."""

    def __init__(self, server: Any, key: str, newest_left: bool, page: int) -> None:
        self._server = server
        self._key = key
        self._newest_left = newest_left
        self._page = page

    def chunks(self, version: int) -> Iterator[tuple[int, list[bytes]]]:
        """Pages of items that were not copied up to ``version``, the oldest first, each with its new version.

        Raises InvalidArgument if it cannot be said which items these are.
        """
        copied, mark = version >> _MARK_BITS, version & ((1 << _MARK_BITS) - 1)
        place = self._search(copied, mark) if copied else 0
        while True:
            width = min(copied, WINDOW)
            items = self._items(place - width, width + self._page)
            if copied and _mark(items[:width]) != mark:
                place = self._search(copied, mark)  # somebody pops while we copy
                continue
            new = items[width:]
            if not new:
                return
            copied, place = copied + len(new), place + len(new)
            if copied >= _MOST:
                raise InvalidArgument(f"list {self._key!r}: one migration copies at most {_MOST:,} items")
            mark = _mark(items[-min(copied, WINDOW) :])
            yield copied << _MARK_BITS | mark, new

    def _search(self, copied: int, mark: int) -> int:
        """The place behind the items that were copied last. Pops can only have made it smaller."""
        width = min(copied, WINDOW)
        top = min(copied, int(self._server.llen(self._key)))
        found: list[int] = []
        repeats = False
        while top >= width and not found:
            low = max(0, top - self._page - width)
            items = self._items(low, top - low)
            ends = [
                end for end in range(len(items), width - 1, -1) if _mark(items[end - width : end]) == mark
            ]
            found = [low + end for end in ends]
            # Of items that repeat themselves a pop may not show at all.
            repeats = any(_repeats(items[end - width : end]) for end in ends)
            top = low + width - 1
        if len(found) == 1 and not repeats:
            return found[0]
        why = "look alike or are there several times" if found else "are no longer there"
        raise InvalidArgument(
            f"list {self._key!r} has changed since {copied} of its items were copied: the last {width} of these {why}, "
            "so it cannot be said which items are new. If consumers have popped everything that was copied, go on "
            "under another name, which copies all that is in the list now"
        )

    def _items(self, start: int, count: int) -> list[bytes]:
        """Items from a place on, the oldest first."""
        if self._newest_left:
            return list(reversed(self._server.lrange(self._key, -(start + count), -(start + 1))))
        return list(self._server.lrange(self._key, start, start + count - 1))


def _repeats(items: Sequence[bytes]) -> bool:
    """Are these the same again when some of the first ones are taken away?"""
    return any(items[step:] == items[:-step] for step in range(1, len(items)))


def _mark(items: Sequence[bytes]) -> int:
    digest = blake2b(digest_size=8)
    for item in items:
        digest.update(b"%d:" % len(item) + item)
    return int.from_bytes(digest.digest(), "big") >> (64 - _MARK_BITS)
