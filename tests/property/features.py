"""Steps of features other than sending and reading: rejects, topics, several destinations, redrive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from mqredis.models import Access, Match, Message

# What a queue may be told while it is in use. Whole multiples of 1000 s, see Runner.do.
POLICIES: tuple[dict[str, Any] | None, ...] = (
    None,
    {"immediate": 0, "final": "poison"},
    {"immediate": 1, "cycles": 1, "delay": 5_000, "final": "dead_letter"},
    {"immediate": 0, "cycles": 3, "delay": 1_000, "max_delay": 3_000, "final": "reject"},
    {"immediate": 0, "cycles": 1, "delay": 50_000, "final": "drop"},
)
CHANGED: tuple[dict[str, Any], ...] = (
    *({"retry": policy} for policy in POLICIES),
    *({"quota_messages": n} for n in (None, None, 0, 3, 8)),
    *({"quota_bytes": n} for n in (None, None, 300, 9_000)),
    *({"journaling": on} for on in (True, True, False)),
    *({"journaling": True, "journal_quota_messages": n} for n in (None, 0, 2)),
    {"journal_quota_bytes": 700},
    *({"put_inhibited": on} for on in (True, False, False)),
    *({"get_inhibited": on} for on in (True, False, False)),
    {"transactional": True},
)


class FeatureSteps(ABC):
    """Mixed into :class:`~tests.property.steps.Runner`."""

    qm: Any
    received: list[tuple[Any, str, Message]]

    def reject(self, which: int) -> Any:
        """Mark a message that was received in a transaction, which may be over."""
        if not self.received:
            return None
        transaction, queue, message = self.received[-1 - which % len(self.received)]
        return transaction.reject(self.queue(queue), message)

    def send_several(self, queues: list[str], unit: int | None, fields: dict[str, Any]) -> Any:
        """One send to several queues: one handle for all."""
        transaction = self.unit(unit, queues[0])
        with self.qm.open(",".join(queues), Access.SEND) as several:
            return several.send(transaction=transaction, **self.named(fields))

    def subscribe(self, topic: str, queue: str, selector: str | None) -> None:
        self.qm.subscribe(topic, queue, selector)

    def unsubscribe(self, topic: str, queue: str) -> None:
        self.qm.unsubscribe(topic, queue)

    def redrive(self, source: str, match: dict[str, Any] | None, to: str | None, limit: int | None) -> Any:
        chosen = {} if match is None else {"match": Match(**match)}
        return self.qm.redrive(source, to=to, limit=limit, **chosen)

    @abstractmethod
    def queue(self, name: str) -> Any:
        """An open handle."""

    @abstractmethod
    def unit(self, which: int | None, queue: str) -> Any:
        """One of the transactions."""

    @abstractmethod
    def named(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return a message to send, with a unique identifier."""
