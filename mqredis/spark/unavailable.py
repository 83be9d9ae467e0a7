"""Lookup ids of the messages of a queue that are locked or delayed, read with plain commands.

The batch reader lists them (``batch``). Where locks and claims are stored is said in lua/core/locks.lua and
lua/claims/claims.lua; tests/spark/test_batch.py checks both. Messages may change state between two commands, so an
id may be listed that is available by now.
"""

from __future__ import annotations

from collections.abc import Iterable

from mqredis.client import QueueManager
from mqredis.codec import locks
from mqredis.codec.claims import PageList
from mqredis.codec.states import SENT, kind_of
from mqredis.keys import LOCKED, PROPERTIES, STATES, TIMERS
from mqredis.models.lookup_ids import split_ids
from mqredis.spark.fetch import fields, part

# The letter of a timer at which a delay ends (lua/core/timers.lua; tests/spark/test_documentation.py compares).
_DELAY = b"d"
# Elements of a list, and texts of many ids, that one command reads.
_PAGE, _TEXTS = 5_000, 64


def locked(manager: QueueManager, path: str) -> list[bytes]:
    """Ids of messages that readers hold; messages that an open transaction has sent are left out."""
    found = [*_in_locks(manager, path), *_in_claims(manager, path)]
    key, states = part(manager, path, LOCKED), part(manager, path, STATES)
    for at in range(0, manager.driver.command("ZCARD", key), _PAGE):
        ids = manager.driver.command("ZRANGE", key, at, at + _PAGE - 1)
        texts = manager.driver.command("HMGET", states, *ids) if ids else []
        found += [lid for lid, text in zip(ids, texts, strict=True) if text and kind_of(text) != SENT]
    return list(dict.fromkeys(found))  # a lock or a page may have been expanded meanwhile


def delayed(manager: QueueManager, path: str) -> list[bytes]:
    """Ids of messages that are not available yet."""
    key, found = part(manager, path, TIMERS), []
    for at in range(0, manager.driver.command("ZCARD", key), _PAGE):
        timers = manager.driver.command("ZRANGE", key, at, at + _PAGE - 1)
        found += [timer.removeprefix(_DELAY) for timer in timers if timer.startswith(_DELAY)]
    return found


def _in_locks(manager: QueueManager, path: str) -> list[bytes]:
    """Ids in the locks that the header of the queue keeps."""
    meta = manager.context.keys.own[0]
    header = manager.driver.command("HGET", meta, part(manager, path, PROPERTIES)) or b""
    single, names = locks.in_header(header)
    packed = [lid for text in _texts(manager, meta, names) for lid in split_ids(locks.ids_in(text))]
    return packed + single


def _in_claims(manager: QueueManager, path: str) -> list[bytes]:
    """Ids in the pages of claims. Those of pages that are not packed are found among the locked ones, too."""
    text = manager.driver.command("HGET", part(manager, path, PROPERTIES), "pages") or b""
    names = [name for pages in PageList.parse_all(text.decode()) for name in pages.ids_fields()]
    return [lid for ids in _texts(manager, part(manager, path, STATES), names) for lid in split_ids(ids)]


def _texts(manager: QueueManager, key: str, names: list[bytes]) -> Iterable[bytes]:
    """The texts of these fields of a hash; "" for one that is missing."""
    for at in range(0, len(names), _TEXTS):  # of at most 1,000 ids each, a megabyte
        yield from (text or b"" for text in fields(manager, key, names[at : at + _TEXTS]))
