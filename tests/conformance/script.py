"""Cases as text: a set-up, then steps with what each must answer. ``test_scripts.py`` and its tables use it.

A case is a paragraph. Its first line names it (with the published case that it is, if it is one) and sets up queues;
the others are steps::

    P4 | T ABC | a receive by id does not find what is shown to peeks
      t.receive_by_lookup_id(A, transaction=x1, allow_peek=True) -> A
      o.receive_by_lookup_id(A) -> NOT_FOUND

``Q`` makes a plain queue ``q``, ``T`` a transactional one ``t``; letters are messages that are sent there at once;
``name=value`` are properties. Several queues are separated by ``+``. A step is a Python expression. What it answers is
written as in the published cases: the letters of messages, the short name of a status, ``ok`` for None.

- ``A`` to ``P``, the letters of bodies: the lookup id, as soon as the message was sent
- ``q``, ``t``: handles; ``o``: one of another client on the first queue; ``s``, ``into``, ``home``: the subqueue
  ``;s`` of the first queue, and targets for moves to it and back; ``aside``: to another one
- ``x1`` ``x2``: transactions; ``c1`` ``c2``: cursors of the first queue, ``oc1``: of ``o``; ``b1``: browsers
- ``name = step``: keep the object; ``name := step``: start a read and come back when it waits; ``name -> ...``: what
  became of it; ``waits(name)``: it has not ended
- Reads that do not say how long they wait do not wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mqredis import errors, models
from mqredis.errors import EnqueueRefused, MqError
from mqredis.status import Status
from tests.support.facade import Broker, Pending, Proxy, Wrapped

# The short names of the published cases.
NAMES = {
    Status.IO_TIMEOUT: "IO_TIMEOUT",
    Status.ILLEGAL_CURSOR_ACTION: "ILLEGAL_CURSOR",
    Status.MESSAGE_ALREADY_RECEIVED: "ALREADY",
    Status.MESSAGE_NOT_FOUND: "NOT_FOUND",
    Status.QUEUE_NOT_AVAILABLE: "NOT_AVAIL",
    Status.TRANSACTION_SEQUENCE: "TX_SEQ",
    Status.TRANSACTION_USAGE: "TX_USAGE",
    Status.MESSAGE_LOCKED_UNDER_TRANSACTION: "LOCKED_TX",
    Status.OPERATION_CANCELLED: "CANCELLED",
    Status.SHARING_VIOLATION: "SHARING",
    Status.INVALID_HANDLE: "BAD_HANDLE",
    Status.INVALID_PARAMETER: "BAD_PARAM",
    Status.STATUS_NOT_FOUND: "ST_NOT_FOUND",
    Status.STATUS_INVALID_PARAMETER: "ST_BAD_PARAM",
    Status.ACCESS_DENIED: "DENIED",
    Status.QUEUE_NOT_FOUND: "NO_QUEUE",
    Status.QUEUE_EXISTS: "EXISTS",
    Status.ILLEGAL_QUEUE_PATHNAME: "BAD_PATH",
    Status.UNSUPPORTED_FORMATNAME_OPERATION: "BAD_FORMAT",
    Status.UNSUPPORTED_ACCESS_MODE: "BAD_MODE",
    Status.XACT_E_NOTSUPPORTED: "NOT_SUPPORTED",
    Status.LOCK_LOST: "LOCK_LOST",
}
# Reads that wait; in a case they do not, unless they are told how long.
READS = frozenset(["receive", "peek", "peek_next", "lock", "receive_group"])
# Where such a read takes how many before how long.
BATCHES = frozenset(["receive_many", "lock_many"])
# A read that has to wait says so with this, in seconds: longer than any test takes.
LONG = 30


@dataclass(frozen=True)
class Case:
    """One paragraph of a table."""

    name: str
    published: str
    setup: str
    steps: tuple[str, ...]


def cases(table: str) -> list[Case]:
    """The paragraphs of a table."""
    found = []
    for paragraph in re.split(r"\n\s*\n", table.strip()):
        head, *steps = [line.strip() for line in paragraph.strip().splitlines()]
        name, setup, *_ = [part.strip() for part in head.split("|")]
        name, _, published = name.partition(" ")
        found.append(Case(name, published, setup, tuple(steps)))
    assert len({case.name for case in found}) == len(found), "two cases have one name"
    return found


class Named(Wrapped):
    """A handle, cursor or browser whose reads do not wait unless a timeout is given."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        if not callable(value):
            return value

        def call(*args: Any, **named: Any) -> Any:
            if name in READS and not args:
                args = (0,)
            if name in BATCHES and len(args) == 1:
                args = (*args, 0)
            plain = {key: bare(item) for key, item in named.items()}
            return value(*map(bare, args), **plain)

        return call


def bare(value: Any) -> Any:
    """Return the object behind a wrapper, also inside a list."""
    if isinstance(value, list):
        return [bare(item) for item in value]
    return value.target if isinstance(value, Named) else value


def shown(value: Any) -> str:
    """Format a result as the cases write it."""
    if value is None:
        return "ok"
    if isinstance(value, EnqueueRefused):
        return f"REFUSED_{value.enqueue_status}"
    if isinstance(value, MqError):
        return NAMES.get(Status(value.status), type(value).__name__)
    if isinstance(value, BaseException):
        raise AssertionError(f"no error of ours: {value!r}") from value
    if isinstance(value, list | Iterator) or (isinstance(value, Proxy) and not hasattr(value.target, "body")):
        return "".join(shown(item) for item in value) or "-"
    body = getattr(value, "body", None)
    if isinstance(body, bytes):
        return body.decode()
    return str(value)


class Stage(dict[str, Any]):
    """The names of one case, made when they are first used."""

    def __init__(self, broker: Broker, setup: str) -> None:
        super().__init__(vars(models))
        self.broker = broker
        self.first = ""
        self.queues: list[str] = []
        self.update(
            qm=broker.qm,
            broker=broker,
            LONG=LONG,
            errors=errors,
            clock=broker.qm.advance_clock,
            client=broker.client,
        )
        self.update({name: getattr(self, name) for name in HELPERS})
        for queue in setup.split("+"):
            self.prepare(queue.split())

    def prepare(self, words: list[str]) -> None:
        if not words:
            return
        kind, *rest = words
        properties = {w.partition("=")[0]: eval(w.partition("=")[2]) for w in rest if "=" in w}  # noqa: S307 - ours
        letters = "".join(w for w in rest if "=" not in w)
        transactional = kind[0] == "T"
        name = kind.lower()
        self.broker.qm.create_queue(name, transactional=transactional, **properties)
        self.first = self.first or name
        self.queues.append(name)
        self[name] = Named(self.broker.qm.open(name))
        self.put(self[name], letters)

    def __missing__(self, name: str) -> Any:
        made = self.make(name)
        self[name] = made
        return made

    def make(self, name: str) -> Any:
        qm, first = self.broker.qm, self.first
        if re.fullmatch(r"x\d", name):
            return qm.transaction()
        if re.fullmatch(r"o?[cb]\d", name):
            handle = self["o" if name[0] == "o" else first].target
            return Named(handle.cursor() if "c" in name else handle.browser())
        makers = {
            "o": lambda: Named(self.broker.client().open(first)),
            "s": lambda: Named(qm.open(f"{first};s")),
            "into": lambda: Named(qm.open(f"{first};s", models.Access.MOVE)),
            "aside": lambda: Named(qm.open(f"{first};aside", models.Access.MOVE)),
            "home": lambda: Named(qm.open(first, models.Access.MOVE)),
        }
        if name not in makers:
            raise KeyError(name)
        return makers[name]()

    def end(self) -> None:
        """Delete the queues, so that another stage of the same broker can create them again."""
        for value in list(self.values()):
            if isinstance(value, Named) or hasattr(bare(value), "prepare"):
                with suppress(MqError):
                    bare(value).abort() if hasattr(bare(value), "prepare") else bare(value).close()
        for name in self.queues:
            self.broker.qm.delete_queue(name)

    # ---- what steps may call ------------------------------------------------------------------------------

    def put(self, queue: Any, letters: str, **fields: Any) -> None:
        """Send a message for each letter, in a transaction of its own if the queue is transactional."""
        handle = bare(queue)
        if not letters:
            return None
        if self.broker.qm.queue_info(handle.name).transactional and "transaction" not in fields:
            with self.broker.qm.transaction() as tx:
                return self.put(queue, letters, transaction=tx, **fields)
        for letter in letters:
            self[letter] = handle.send(letter.encode(), **fields).lookup_id
        return None

    def read(self, queue: Any) -> str:
        """Return the letters of the available messages."""
        return "".join(m.body.decode() for m in bare(queue).browse()) or "-"

    def state(self, name: str) -> str:
        """ready/locked/messages."""
        info = self.broker.qm.queue_info(name)
        return f"{info.ready}/{info.locked}/{info.messages}"

    def classes(self, name: str = "admin") -> str:
        """The classes of all messages of a queue, in hexadecimal digits; the messages are received."""
        found = []
        with self.broker.qm.open(name, models.Access.RECEIVE) as queue:
            while True:
                try:
                    found.append(f"{queue.receive(0).message_class:04X}")
                except errors.IoTimeout:
                    return " ".join(found) or "-"

    def letters(self, name: str) -> str:
        """Receive all messages of a queue; return their bodies."""
        found = ""
        with self.broker.qm.open(name, models.Access.RECEIVE) as queue:
            while True:
                try:
                    found += queue.receive(0).body.decode()
                except errors.IoTimeout:
                    return found or "-"

    def waits(self, pending: Pending) -> str:
        """Return whether a read still waits."""
        return "no" if pending.done() else "yes"

    def both(self, *pending: Pending) -> str:
        """Return the results of reads that were notified together; which read gets which message is not defined."""
        return "".join(sorted(one.result().body.decode() for one in pending))

    # ---- steps --------------------------------------------------------------------------------------------

    def run(self, step: str) -> None:
        text, _, expected = step.partition(" -> ")
        name, started, expression = text.partition(" := ")
        if started:
            code = compile(expression.strip(), step, "eval")
            watched = self.watched(expression)
            self[name] = self.broker.wait(lambda: eval(code, {}, self), watched)  # noqa: S307 - ours
            return
        target, kept, right = text.partition(" = ")
        named = bool(kept) and target.isidentifier()
        try:
            value = eval((right if named else text).strip(), {}, self)  # noqa: S307 - a table of ours
            if isinstance(value, Pending):
                value = value.error() or value.result()
            if named:
                self[target] = Named(value) if hasattr(value, "peek") else value
            answer = shown(value) if expected else ""
        except MqError as error:
            answer = shown(error)
            expected = expected or "no error"
        if expected:
            assert answer == expected.strip(), f"{step}: {answer}"

    def watched(self, expression: str) -> str:
        """The queue that a read waits on."""
        name = re.match(r"(\w+)\.", expression)
        assert name, expression
        self[name[1]]  # a cursor is opened before its read begins
        return f"{self.first};s" if name[1] == "s" else self.first if name[1] not in ("q", "t") else name[1]


HELPERS = ("both", "put", "read", "state", "classes", "letters", "waits")


def play(broker: Broker, case: Case) -> None:
    """Run the set-up of a case, then each step."""
    stage = Stage(broker, case.setup)
    for step in case.steps:
        stage.run(step)
