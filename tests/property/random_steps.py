"""Long random runs from a seed, with a shrinker: faster and longer than the runs of hypothesis.

Hypothesis finds the small odd value; a run of hundreds of steps finds what needs a history: a message that was
received, aborted, moved, locked and purged before the step that goes wrong.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ClassVar

from mqredis.models import Acknowledge, Journal, Seek
from tests.property.features import CHANGED
from tests.property.steps import FITTING, NAMES, SIDES, SUBQUEUES, Step

_BODIES: tuple[Any, ...] = (b"", b"\0", b"-0", b"A", b"\0\1\2\3\4", (b"x", 4096), (b"\xff\0", 3000))
_TEXTS = ("", "a", "ünï ☃", "\x01\x02\x04", "日本", "x" * 40)
_MAIN = ("plain", "plain", "plain", "units", "units", "units", *NAMES)
_TARGETS = (*_MAIN, *_MAIN, "news", "unit news", "admin")
_TOPICS = ("news", "unit news")
_SOURCES = ("system$;deadletter", "system$;deadxact", "system$;journal", "letters", "plain;journal")
_FAMILIES = (("plain", "plain;s"), ("plain;s", "plain"), ("units", "units;s"), ("units;s", "units"),
    ("plain;poison", "plain"), ("plain;retry", "plain"), ("plain", "plain;retry"), ("plain;s", "plain;poison"),
)  # fmt: skip


class RandomSteps:
    """Draws steps from a seed."""

    mains: ClassVar[tuple[str, ...]] = _MAIN
    subqueues: ClassVar[tuple[str, ...]] = (*SUBQUEUES, *SIDES, "admin", "letters")

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.kinds: dict[str, tuple[float, Callable[[], tuple[Any, ...]]]] = {
            "send": (16, lambda: (self.one(*_TARGETS), self.fit(), self.message())),
            "send_many": (3, lambda: (self.one(*_TARGETS), self.fit(), self.messages())),
            "receive": (6, lambda: (self.any(), self.unit())),
            "receive_many": (2, lambda: (self.any(), self.unit(), self.few())),
            "peek": (2, lambda: (self.any(),)),
            "lock": (4, lambda: (self.any(), self.lease())),
            "lock_many": (2, lambda: (self.any(), self.few(), self.lease())),
            "by_id": (8, self.by_id),
            "end_lock": (6, lambda: (self.few(), self.one("commit", "abort", "abort", "reject"))),
            "extend_lock": (1, lambda: (self.few(), self.lease())),
            "begin": (2, lambda: (self.lease(),)),
            "end_unit": (6, lambda: (self.few() - 1, self.one("commit", "abort", "abort", "prepare"))),
            "open_cursor": (1, lambda: (self.any(),)),
            "use_cursor": (8, self.use_cursor),
            "move": (6, self.move),
            "purge": (2, lambda: (self.any(),)),
            "recreate": (0.3, lambda: (self.main(),)),
            "reopen": (0.5, lambda: (self.any(),)),
            "close": (0.5, lambda: (self.any(),)),
            "reject": (1.5, lambda: (self.few() - 1,)),
            "send_several": (1, lambda: (self.several(), self.fit(), self.message())),
            "subscribe": (
                0.5,
                lambda: (self.one(*_TOPICS), self.main(), self.one(None, "n = 1", "n IS NULL")),
            ),
            "unsubscribe": (0.3, lambda: (self.one(*_TOPICS), self.main())),
            "redrive": (1.5, self.redrive),
            "change": (4, lambda: (self.main(), self.one(*CHANGED))),
            "throttle": (0.5, lambda: (self.one(False, False, False, True),)),
            "manager_quota": (0.5, lambda: (self.one(None, None, None, 5, 30),)),
            "pass_time": (3, lambda: (self.one(1e3, 1e3, 1e4, 1e5, 1e6),)),
        }

    def steps(self, count: int) -> list[Step]:
        """Return this number of steps."""
        names = list(self.kinds)
        weights = [self.kinds[name][0] for name in names]
        return [Step(name, self.kinds[name][1]()) for name in self.rng.choices(names, weights, k=count)]

    def one(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def main(self) -> str:
        return self.one(*self.mains)

    def any(self) -> str:
        return self.one(*self.mains, *self.mains, *self.subqueues)

    def few(self) -> int:
        return self.rng.randint(1, 4)

    def lease(self) -> float:
        return self.one(5e3, 5e4, 5e5, 5e5)

    def fit(self) -> Any:
        return self.one(*[FITTING] * 12, None, 0)

    def unit(self) -> Any:
        return self.one(FITTING, FITTING, FITTING, None, None, 0)

    def message(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"body": self.one(*_BODIES)}
        if self.rng.random() < 0.5:
            fields["priority"] = self.rng.randint(0, 7)
        if self.rng.random() < 0.2:
            fields["correlation_id"] = self.one("c-1", b"\0\xff", "ünï")
        if self.rng.random() < 0.2:
            fields["properties"] = {
                self.one("n", "n", "ü", "\x02"): self.one(*_TEXTS, 1, -(2**62), 0.5, True, None, b"\0")
            }
        if self.rng.random() < 0.15:
            fields["time_to_be_received"] = self.one(0.0, 5e3, 5e4, 5e5)
        if self.rng.random() < 0.1:
            fields["delay"] = self.one(5e3, 5e4)
        if self.rng.random() < 0.3:
            fields["acknowledge"] = Acknowledge(self.rng.randint(1, 15))
            fields["administration_queue"] = self.one(
                "admin", "admin", "admin", "units", "nowhere", "news", "plain"
            )
        if self.rng.random() < 0.3:
            fields["journal"] = Journal(self.one(1, 1, 2, 3))
        if self.rng.random() < 0.1:
            fields["dead_letter_queue"] = self.one("letters", "letters", "units", "nowhere", "news")
        if self.rng.random() < 0.1:
            fields |= {"dedup_key": self.one("k", "l"), "dedup_window": self.one(0.0, 5e3, 5e4)}
        if self.rng.random() < 0.1:
            fields |= {"sent_seconds_ago": self.one(3e3, 7e3), "time_to_reach_queue": self.one(1e3, 9e3)}
        return fields

    def several(self) -> list[str]:
        return [self.main() for _ in range(self.rng.randint(1, 3))]

    def redrive(self) -> tuple[Any, ...]:
        where = self.one(None, None, {"correlation_id": "c-1"})
        return (
            self.one(*_SOURCES),
            where,
            self.one(None, None, None, "plain", "units", "news"),
            self.one(None, 1, 2),
        )

    def messages(self) -> list[dict[str, Any]]:
        return [self.message() for _ in range(self.few())]

    def by_id(self) -> tuple[Any, ...]:
        how = self.one("peek", "peek", "lock", "receive", "receive")
        return how, self.any(), self.rng.randint(0, 9), self.one(*Seek), self.unit(), self.rng.random() < 0.7

    def use_cursor(self) -> tuple[Any, ...]:
        how = self.one("peek", "peek", "peek_next", "peek_next", "receive", "lock", "reset")
        return self.few(), self.any(), how, self.unit()

    def move(self) -> tuple[Any, ...]:
        source, target = self.one(*_FAMILIES)
        return source, target, self.rng.randint(0, 9), self.unit()


def shrunk(steps: list[Step], fails: Callable[[list[Step]], bool]) -> list[Step]:
    """Return a shorter list that still fails; parts are left out repeatedly."""
    size = len(steps) // 2
    while size:
        at = 0
        while at < len(steps):
            shorter = steps[:at] + steps[at + size :]
            if fails(shorter):
                steps = shorter
            else:
                at += size
        size //= 2
    return steps
