"""Every key of the store, and nothing else in Python knows how they are spelled.

Commands and operations name keys with it; the drivers, both interfaces and Spark ask it for single keys and channels.
All other packages know the names of the system's queues, and what a name of a queue says (``kept_by_broker`` and its
neighbours), from here: models, codec, the console, the command line, kombu.

Change together with: the Lua module that is named beside the key (``tests/contract/test_constants.py`` compares what it
can), ``docs/key-layout.md``, the rules of ``cli/acl.py`` and the types in ``operations/doctor/checks/keys.py``.

All keys of a queue manager share the hash tag ``{manager}``: one slot, so that a transaction or a quota may span its
queues. Braces, glob characters and everything else outside ``[A-Za-z0-9._-]`` are encoded byte by byte as ``%XX``, so
no name can reach another manager's keys and ``~mq:{manager}:*`` is an exact ACL pattern.
"""

from __future__ import annotations

import re
import unicodedata

from mqredis.errors import InvalidName

PREFIX = "mq"
MAX_NAME = 124
MAX_SUBQUEUE = 32
# Characters that no name may have: those of hash tags and of globs, and what separates a queue and its subqueue.
RESERVED = "{}*?[];"

# The queues of the system: dead letters sent without and within a transaction, and source journaling.
SYSTEM = "system$"
DEAD_LETTER = "system$;deadletter"
TRANSACTIONAL_DEAD_LETTER = "system$;deadxact"
SYSTEM_JOURNAL = "system$;journal"
# The log of what operators have done (lua/admin/operator.lua).
ACTIONS = "system$;actions"
_SYSTEM_QUEUES = frozenset({DEAD_LETTER, TRANSACTIONAL_DEAD_LETTER, SYSTEM_JOURNAL, ACTIONS})
# The names of temporary queues for the replies to requests begin with it (lua/queue_orphans.lua).
REPLIES = "reply$."
# Subqueues in which messages wait for their next attempt.
RESTING = ("retry", "lapsed")
# Subqueue of the messages that an operator has deleted for a time.
TRASH = "trash"
# Subqueues that the broker creates when it needs them. Another one has its name in lua/core/queue.lua, too, and a quota
# of its own or its queue's (``has_own_quota``).
_KEPT_SUBQUEUES = frozenset({"journal", "retry", "poison", "lapsed", TRASH})

_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

# Keys of one queue, in the order in which every script receives them (lua/core/queue.lua, docs/key-layout.md).
QUEUE_PARTS = ("q", "a", "l", "m", "s", "t", "w", "i")
PROPERTIES, AVAILABLE, LOCKED, RECORDS, STATES, TIMERS, WAITERS, INDEX = QUEUE_PARTS
# Keys of the manager, in the order in which every script receives them. Scripts that work on messages
# declare the first two; those that create, open or delete queues declare all five.
MANAGER_PARTS = ("meta", "txs", "queues", "handles", "idle")
MESSAGE_SCRIPT_PARTS = 2
# Keys that a manager may have besides: those with these names, and those that begin so.
SINKS, WORKERS, SCHEDULES, SCHEDULE_MESSAGES = OPTIONAL = (
    "sinks",
    "workers",
    "schedules",
    "schedules:messages",
)
WAKE, STAGE, ACTION = OPTIONAL_PREFIXES = ("wake:", "stage:", "action:")
# How the names of fields begin: in ``meta`` those of packed locks, of trails and of what clients told of themselves; in
# the hash of a queue those of claims and of subscriptions. The channel of a claim begins in the same way.
LOCK, TRAIL, CLIENT, CLAIM, SUBSCRIPTION = ("lock:", "trail:", "client:", "claim:", "sub:")
# The number of the form of the stored data, and the only one that this release reads.
SCHEMA = "6"
# The counters of the manager (field ``counters`` of ``meta``) and of a queue (in its header), in order.
META_COUNTS = ("history", "seq", "messages", "bytes", "time")
QUEUE_COUNTS = ("messages", "bytes", "gone", "due", "waiting", "marks")


def encode(name: str) -> str:
    """Encode a name for use inside a key: injective, and only ``[A-Za-z0-9._%-]`` comes out."""
    data = name.encode("utf-8", "surrogatepass")
    return "".join(chr(b) if b in _SAFE else f"%{b:02X}" for b in data)


def decode(text: str) -> str:
    """The inverse of :func:`encode`."""
    out = bytearray()
    i = 0
    while i < len(text):
        if text[i] == "%":
            out.append(int(text[i + 1 : i + 3], 16))
            i += 3
        else:
            out.append(ord(text[i]))
            i += 1
    return out.decode("utf-8", "surrogatepass")


def encode_tag(tag: str | None) -> str:
    """The tag of a waiting reader as the scripts compare it; "-", which no tag becomes, if it has none."""
    if tag is None:
        return "-"
    return "%2D" if tag == "-" else encode(tag)


def check_name(name: object, what: str = "queue", limit: int = MAX_NAME) -> str:
    """Return the name in NFC, or raise :class:`InvalidName` saying what is wrong with it."""
    if not isinstance(name, str):
        raise InvalidName(f"{what} name must be a str, not {type(name).__name__}")
    if not name:
        raise InvalidName(f"{what} name is empty")
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidName(f"{what} name holds a lone surrogate") from None
    name = unicodedata.normalize("NFC", name)
    if len(name) > limit:
        raise InvalidName(f"{what} name has {len(name)} characters; at most {limit} are allowed")
    if _CONTROL.search(name):
        raise InvalidName(f"{what} name holds a control character")
    if any(c in name for c in RESERVED):
        raise InvalidName(f"{what} name holds one of {{}} * ? [ ] ;")
    if "," in name and what.endswith("queue"):
        raise InvalidName(
            f"{what} name holds a comma, which stands between several queues that are opened together"
        )
    if name != name.strip():
        raise InvalidName(f"{what} name begins or ends with white space")
    return name


def subqueue_parts(path: object) -> tuple[str, str]:
    """Split ``queue;subqueue``; the second part is empty for a queue. Raises InvalidName."""
    if not isinstance(path, str):
        raise InvalidName(f"queue name must be a str, not {type(path).__name__}")
    name, semicolon, sub = path.partition(";")
    name = check_name(name)
    if semicolon:
        sub = check_name(sub, "subqueue", MAX_SUBQUEUE)
    return name, sub


def path_of(path: object) -> str:
    """The name of a queue or subqueue in the form that is stored. Raises InvalidName."""
    name, sub = subqueue_parts(path)
    return f"{name};{sub}" if sub else name


def parent_of(path: str) -> str:
    """The queue whose properties and quota a subqueue shares; "" for a queue, and for a journal."""
    name, semicolon, _ = path.partition(";")
    return name if semicolon and not is_journal_or_system(path) else ""


def kept_by_broker(path: str) -> bool:
    """Does the broker create this queue when it needs it: a queue of the system, a journal, ``;retry`` and so on?"""
    name, _, sub = path.partition(";")
    return path in _SYSTEM_QUEUES if name == SYSTEM else sub in _KEPT_SUBQUEUES


def is_reply_queue(path: str) -> bool:
    """Is this a temporary queue for the replies to requests? Each session of a client has others."""
    return path.startswith(REPLIES)


def is_system_queue(path: str) -> bool:
    """Is this one of the queues that each manager has?"""
    return path in _SYSTEM_QUEUES


def is_journal_or_system(path: str) -> bool:
    """Is this a journal or a queue of the system? Only the broker puts messages there. It has a quota of its own."""
    name, _, sub = path.partition(";")
    return name == SYSTEM or sub == "journal"


def has_trash(path: str) -> bool:
    """Are deleted messages of this queue kept in ``;trash`` if an operator asks for it?"""
    return not is_journal_or_system(path) and path.partition(";")[2] != TRASH


def has_own_quota(path: str) -> bool:
    """Do the messages of this subqueue not count in the quota of its queue: those of a journal, and of ``;poison``?"""
    return is_journal_or_system(path) or path.endswith(";poison")


class KeySet:
    """The KEYS of a call, with room for their packed form, which a driver makes."""

    __slots__ = ("keys", "packed")

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self.packed: dict[str, tuple[bytes, int]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeySet) and self.keys == other.keys

    def __hash__(self) -> int:
        return hash(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"KeySet({self.keys!r})"


class ManagerKeys:
    """Key names of one queue manager."""

    def __init__(self, manager: str) -> None:
        self.manager = check_name(manager, "manager")
        self.tag = f"{PREFIX}:{{{encode(self.manager)}}}:"
        self.own = tuple(self.tag + part for part in MANAGER_PARTS)
        # The workers that live, and the pauses that operators have set (lua/admin/workers.lua).
        self.workers = f"{self.tag}{WORKERS}"
        # The sinks of data pipelines (lua/claims/sinks.lua).
        self.sinks = f"{self.tag}{SINKS}"
        # The schedules and their messages (lua/admin/schedules.lua).
        self.schedules = (f"{self.tag}{SCHEDULES}", f"{self.tag}{SCHEDULE_MESSAGES}")
        self._calls: dict[tuple[str, ...], KeySet] = {}
        self._admins: dict[tuple[str, ...], KeySet] = {}

    def queue(self, name: str) -> tuple[str, ...]:
        """The keys of one queue; ``name`` may be a path such as ``orders;retry``."""
        stem = f"{self.tag}q:{encode(name)}:"
        return tuple(stem + part for part in QUEUE_PARTS)

    def path_of(self, keys: KeySet) -> str:
        """The name of the first queue of a call."""
        key = keys.keys[MESSAGE_SCRIPT_PARTS]
        return decode(key.removeprefix(f"{self.tag}q:").removesuffix(f":{QUEUE_PARTS[0]}"))

    def call(self, *queues: str) -> KeySet:
        """KEYS of a script that works on the messages of these queues."""
        found = self._calls.get(queues)
        return self._made(self._calls, self.own[:MESSAGE_SCRIPT_PARTS], queues) if found is None else found

    def admin(self, *queues: str) -> KeySet:
        """KEYS of a script that creates, opens, closes, lists or deletes queues."""
        found = self._admins.get(queues)
        return self._made(self._admins, self.own, queues) if found is None else found

    def sink(self, name: str, queues: tuple[str, ...] = (), stages: tuple[str, ...] = ()) -> KeySet:
        """KEYS of a script that stages or publishes for the sink of a data pipeline (``lua/claims/sinks.lua``)."""
        keys = self.own[:MESSAGE_SCRIPT_PARTS]
        for path in queues:
            keys += self.queue(path)
        return KeySet((*keys, self.sinks, *self.stages(name, stages)))

    def stages(self, sink: str, names: tuple[str, ...]) -> tuple[str, ...]:
        """The key of the registry of a sink, given by its encoded name, and those of the lists of these stages."""
        registry = f"{self.tag}{STAGE}{sink}"
        return (registry, *(f"{registry}:{name}" for name in names))

    def token(self, token: str) -> str:
        """The key that keeps the reply of an action of an operator (``lua/admin/operator.lua``)."""
        return f"{self.tag}{ACTION}{token}"

    def claim_channel(self, owner: str, lineage: str) -> str:
        """The channel to which the process behind a claim subscribes while it lives (``lua/claims/claims.lua``)."""
        return f"{self.tag}{CLAIM}{owner}:{lineage}"

    def _made(
        self, kept: dict[tuple[str, ...], KeySet], keys: tuple[str, ...], queues: tuple[str, ...]
    ) -> KeySet:
        for name in queues:
            keys += self.queue(name)
        made = kept[queues] = KeySet(keys)
        if len(kept) > 4096:
            kept.pop(next(iter(kept)))
        return made

    def wake_key(self, slot: str) -> str:
        """The wake key of a session's slot. Scripts build it themselves: see docs/decisions/waiting.md."""
        return f"{self.tag}{WAKE}{slot}"

    def channel(self, slot: str, database: int) -> str:
        """The keyspace notification channel of the wake key of a slot."""
        return f"__keyspace@{database}__:{self.wake_key(slot)}"
