"""Random runs with reads of particular messages: matches, selectors, groups, turns, browsers, marks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from mqredis.models import Grouping, Mark, Match, Message, Outgoing, Seek
from mqredis.models.message import Counts, Origin, read_message
from tests.property.random_steps import RandomSteps
from tests.property.steps import Runner

_SELECTORS = (
    "colour = 'red'", "size > 1", "colour = 'red' OR size BETWEEN 1 AND 2", "NOT (colour = 'blue')",
    "colour LIKE '%e%' AND size IS NOT NULL", "colour IS NULL", "JMSCorrelationID = 'c1'", "$priority > 3",
    "JMSCorrelationID IN ('c1', 'c2') AND size < 3", "JMSXGroupID = 'g' AND JMSXGroupSeq = 1",
    "$group_id = \"0x6b\"", "JMSMessageID = 'm1' AND colour <> 'red'", "$last_in_group", "size / 2 = 1", " ",
)  # fmt: skip
_QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "turns": {"group_exclusive": True},
    "units": {"transactional": True},
    "unit turns": {"transactional": True, "group_exclusive": True},
}
_L, _A, _S, _C = Grouping(1), Grouping(2), Grouping(4), Grouping(8)
_GROUPINGS = (_L, _L, _L | _A, _L | _C, _L | _A | _C, _A, _S, _C, _A | _S)


class MatchingRunner(Runner):
    """Carries out what :class:`RandomMatchingSteps` draws."""

    queue_properties: ClassVar[dict[str, dict[str, Any]]] = _QUEUES
    subqueues: ClassVar[tuple[str, ...]] = ("turns;s",)
    subscriptions: ClassVar[tuple[tuple[str, str, str | None], ...]] = ()

    def __init__(self, qm: Any) -> None:
        self.tokens: list[str] = []
        self.browsers: list[Any] = []
        self.browsed: list[int] = []
        super().__init__(qm)

    def named(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Duplicate identifiers are intended here: the run chooses those of some messages."""
        return super().named(fields) | (
            {"message_id": fields["message_id"]} if "message_id" in fields else {}
        )

    def send(self, queue: str, unit: int | None, fields: dict[str, Any]) -> Any:
        sent = self.queue(queue).send(transaction=self.unit(unit, queue), **self.named(fields))
        self._sent(queue, [sent])
        return sent

    def send_group(
        self, queue: str, unit: int | None, bodies: list[Any], group: str, segment_bytes: int | None
    ) -> Any:
        items = [Outgoing(**self.named({"body": body})) for body in bodies]
        sent = self.queue(queue).send_group(
            items, group_id=group, segment_bytes=segment_bytes, transaction=self.unit(unit, queue)
        )
        self._sent(queue, sent)
        return sent

    def _sent(self, queue: str, sent: list[Any]) -> None:
        self.ids[queue] += [s.lookup_id for s in sent]
        self.tokens += [s.token for s in sent]

    def get(
        self,
        how: str,
        queue: str,
        unit: int | None,
        match: dict[str, Any],
        selector: str | None,
        grouping: Grouping | None,
    ) -> Any:
        asked: dict[str, Any] = {"match": self.match(match), "selector": selector}
        if how == "peek":
            return self.queue(queue).peek(0, **asked)
        if grouping:
            asked["grouping"] = grouping
        if how == "lock":
            self.locks.append(self.queue(queue).lock(0, lease=self.hold, **asked))
            return self.locks[-1]
        return self.queue(queue).receive(0, transaction=self.unit(unit, queue), **asked)

    def get_many(
        self, how: str, queue: str, unit: int | None, count: int, match: dict[str, Any], selector: str | None
    ) -> Any:
        asked = {"match": self.match(match), "selector": selector}
        if how == "lock":
            found = self.queue(queue).lock_many(count, 0, lease=self.hold, **asked)
            self.locks += found
            return found
        return self.queue(queue).receive_many(count, 0, transaction=self.unit(unit, queue), **asked)

    def get_group(self, queue: str, unit: int | None, match: dict[str, Any], selector: str | None) -> Any:
        handle, transaction = self.queue(queue), self.unit(unit, queue)
        return handle.receive_group(0, transaction=transaction, match=self.match(match), selector=selector)

    def browse_all(self, queue: str, match: dict[str, Any], selector: str | None) -> Any:
        return list(self.queue(queue).browse(match=self.match(match), selector=selector))

    def purge_some(self, queue: str, match: dict[str, Any], selector: str | None) -> Any:
        return self.queue(queue).purge(match=self.match(match), selector=selector)

    def open_with(self, queue: str, selector: str | None) -> Any:
        self.queue(queue).close()
        self.queues[queue] = self.qm.open(queue, selector=selector)

    def open_cursor_on(self, queue: str, match: dict[str, Any], selector: str | None) -> Any:
        self.cursors.append(self.queue(queue).cursor(match=self.match(match), selector=selector))
        return len(self.cursors)

    def open_browser(
        self, queue: str, match: dict[str, Any], selector: str | None, grouping: Grouping | None, co_op: bool
    ) -> Any:
        how = {"grouping": grouping} if grouping else {}
        asked = {"match": self.match(match), "selector": selector, "co_op": co_op}
        self.browsers.append(self.queue(queue).browser(**asked, **how))
        return len(self.browsers)

    def use_browser(
        self, which: int, how: str, queue: str, unit: int | None, match: dict[str, Any], asked: dict[str, Any]
    ) -> Any:
        if not self.browsers:
            self.open_browser(queue, {}, None, None, True)
        browser = self.browsers[-1 - which % len(self.browsers)]
        if how in ("first", "next"):
            found: Message = getattr(browser, how)(match=self.match(match), **asked)
            self.browsed.append(found.lookup_id)
            return found
        if how == "take":
            return browser.take(transaction=self.unit(unit, queue))
        if how == "unmark":
            named = read_message(
                self.browsed[-1] if self.browsed else 1, "", b"", Origin("", "", Counts(), False)
            )
            return browser.unmark(named, asked.get("mark", Mark.HANDLE))
        return getattr(browser, how)()

    def match(self, given: dict[str, Any]) -> Match | None:
        """With a token of ours for its number."""
        if "token" in given:
            which = given["token"]
            given = given | {"token": self.tokens[-1 - which % len(self.tokens)] if self.tokens else "none-0"}
        return Match(**given) if given else None


class RandomMatchingSteps(RandomSteps):
    """Draws steps about particular messages from a seed."""

    mains: ClassVar[tuple[str, ...]] = ("plain", "plain", "plain", "turns", "turns", "units", "unit turns")
    subqueues: ClassVar[tuple[str, ...]] = ()

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        kept = {
            name: self.kinds[name]
            for name in ("receive", "receive_many", "lock", "lock_many", "by_id", "end_lock", "begin",
                         "end_unit", "use_cursor", "open_cursor", "purge", "recreate", "reopen")
        }  # fmt: skip
        more: dict[str, tuple[float, Callable[[], tuple[Any, ...]]]] = {
            "send": (14, lambda: (self.main(), self.fit(), self.message())),
            "send_group": (3, self.send_group),
            "get": (16, lambda: (self.how("peek"), self.any(), self.unit(), *self.asked(), self.grouping())),
            "get_many": (4, lambda: (self.how(), self.any(), self.unit(), self.few(), *self.asked())),
            "get_group": (3, lambda: (self.any(), self.unit(), *self.asked())),
            "browse_all": (2, lambda: (self.any(), *self.asked())),
            "purge_some": (1, lambda: (self.any(), *self.asked())),
            "open_with": (0.5, lambda: (self.any(), self.selector())),
            "open_cursor_on": (1.5, lambda: (self.any(), *self.asked())),
            "open_browser": (3, self.open_browser),
            "use_browser": (18, self.use_browser),
            "move": (1, lambda: (*self.one(("turns", "turns;s"), ("turns;s", "turns")), self.few(), None)),
            "pass_time": (2, lambda: (self.one(1e3, 4e3, 1e4, 1e5),)),
        }
        self.kinds = kept | more

    def how(self, *more: str) -> str:
        return self.one("receive", "lock", *more)

    def identifier(self) -> Any:
        return self.one("g", "g", "g", "h", b"k", b"k\0")

    def message(self) -> dict[str, Any]:
        rng = self.rng
        fields: dict[str, Any] = {"body": self.one(b"1", b"22", b"333", b"", (b"x", 5000))}
        if rng.random() < 0.4:
            fields["priority"] = self.one(1, 3, 3, 6)
        if rng.random() < 0.3:
            fields["correlation_id"] = self.one("c1", "c2", b"c1", b"k", b"k\0\0", b"\0")
        if rng.random() < 0.2:
            fields["message_id"] = self.one("m1", "m2", b"\x01")
        if rng.random() < 0.5:
            fields["properties"] = {
                name: self.one(*values)
                for name, values in (("colour", ("red", "blue", None, 5)), ("size", (1, 2, 3.5, "2", True)))
                if rng.random() < 0.7
            }
        if rng.random() < 0.6:
            fields |= {"group_id": self.identifier(), "sequence": self.one(1, 1, 2, 2, 3, None)}
            fields["last_in_group"] = rng.random() < 0.4
            if rng.random() < 0.3:
                fields |= {"offset": self.one(0, 0, 1, 2, 3), "segment": True}
                fields["last_segment"] = rng.random() < 0.5
        if rng.random() < 0.06:
            fields["time_to_be_received"] = self.one(3e3, 5e4)
        if rng.random() < 0.06:
            fields["delay"] = self.one(3e3, 5e4)
        return fields

    def send_group(self) -> tuple[Any, ...]:
        size = self.one(None, None, 2, 5000)
        larger = ((b"y", 9000),) if size != 2 else (b"88888888",)
        bodies = [self.one(b"1", b"22", b"4444", b"55555", *larger) for _ in range(self.few())]
        return self.main(), self.fit(), bodies, self.identifier(), size

    def asked(self) -> tuple[dict[str, Any], str | None]:
        return self.match_fields(), self.one(None, None, None, self.selector())

    def match_fields(self) -> dict[str, Any]:
        choices: dict[str, tuple[Any, ...]] = {
            "message_id": ("m1", "m2", b"\x01\0", "message-000003", "none", ""),
            "correlation_id": ("c1", "c1", "c2", b"c1", b"k", b"k\0", b"\0\0"),
            "group_id": ("g", "g", "g", "h", b"k", None),
            "sequence": (1, 2, 2, 3),
            "offset": (0, 0, 2, 3),
            "token": (0, 1, 2, 5),
        }
        drawn = self.rng.random()
        count = 0 if drawn < 0.35 else 1 if drawn < 0.75 else 2 if drawn < 0.95 else 3
        return {name: self.one(*choices[name]) for name in self.rng.sample(list(choices), count)}

    def selector(self) -> str:
        text: str = self.one(*_SELECTORS)
        return text

    def grouping(self) -> Grouping | None:
        return None if self.rng.random() < 0.45 else self.one(*_GROUPINGS)

    def open_browser(self) -> tuple[Any, ...]:
        match, selector = self.asked() if self.rng.random() < 0.3 else ({}, None)
        return self.any(), match, selector, self.grouping(), self.rng.random() < 0.6

    def use_browser(self) -> tuple[Any, ...]:
        how = self.one(*["first"] * 4, *["next"] * 10, "current", "current", "take", "take", "take", "unlock",
                       "close", "unmark")  # fmt: skip
        asked: dict[str, Any] = {}
        if how in ("first", "next"):
            if self.rng.random() < 0.3:
                asked |= {"lock": True, "lease": self.one(5e3, 5e4)}
            if self.rng.random() < 0.4:
                asked["unmarked"] = True
            if self.rng.random() < 0.2:
                asked["selector"] = self.selector()
        if how == "unmark" or (how in ("first", "next") and self.rng.random() < 0.4):
            asked["mark"] = self.one(Mark.HANDLE, Mark.HANDLE, Mark.CO_OP, Mark(3))
        match = self.match_fields() if self.rng.random() < 0.3 else {}
        return self.rng.randint(0, 2), how, self.main(), self.unit(), match, asked

    def by_id(self) -> tuple[Any, ...]:
        how = self.one("peek", "lock", "receive", "receive")
        return how, self.any(), self.rng.randint(0, 9), self.one(*Seek), self.unit(), self.rng.random() < 0.5
