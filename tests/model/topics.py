"""Topics: a message sent to a topic goes to every subscribed queue; the topic stores none."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from mqredis import keys
from mqredis.errors import (
    DuplicateMessage,
    InvalidArgument,
    ManagerQuotaExceeded,
    MessageTooLarge,
    PutInhibited,
    QueueNotFound,
    QueueQuotaExceeded,
)
from mqredis.models import Outgoing
from mqredis.selector import parse
from tests.model import dedup
from tests.model.adm import DEDUP, Position, Queue, Stored, UnitOfWork

if TYPE_CHECKING:
    from tests.model.store import Store


def subscribe(store: Store, topic: str, queue: str, selector: str | None) -> None:
    """Subscribe a queue, or change its selector."""
    source = named(store, topic)
    if queue not in store.queues:
        raise QueueNotFound()
    if store.queues[queue].properties.topic:
        raise InvalidArgument()
    if store.queues[queue].properties.transactional != source.properties.transactional:
        raise InvalidArgument()
    source.subscriptions[queue] = selector


def unsubscribe(store: Store, topic: str, queue: str) -> None:
    named(store, topic).subscriptions.pop(queue, None)


def named(store: Store, topic: str) -> Queue:
    if topic not in store.queues:
        raise QueueNotFound()
    if not store.queues[topic].properties.topic:
        raise InvalidArgument()
    return store.queues[topic]


def publish(store: Store, topic: Queue, outs: list[Outgoing], unit: UnitOfWork | None) -> list[Position]:
    """All subscribers or none; one that was deleted, or takes no messages of this kind, is passed over."""
    store.check_form(topic, outs, unit)
    if dedup.taken(store, topic, outs):
        raise DuplicateMessage()
    if store.throttled or store.full([]):
        raise ManagerQuotaExceeded()
    plans: list[tuple[Queue, list[int], list[Stored]]] = []
    for name in sorted(topic.subscriptions, key=keys.encode):
        to = store.queues.get(name)
        if to is None or to.properties.transactional != (unit is not None):
            continue
        chosen = [n for n, out in enumerate(outs) if wants(topic.subscriptions[name], out)]
        drafts = [dataclasses.replace(store.draft(outs[n], unit), asleep=frozenset(DEDUP)) for n in chosen]
        refuse(store, to, drafts, [s for _, _, others in plans for s in others])
        if drafts:
            plans.append((to, chosen, drafts))
    told = [store.draft(out, unit) for out in outs]
    for stored in told:
        store.number(stored, 0 if unit is not None else 7 - stored.out.priority)
    dedup.hold(store, topic, outs)
    for to, chosen, drafts in plans:
        for n, stored in zip(chosen, drafts, strict=True):
            stored.message_id = told[n].message_id
            stored.out = stored.out.replace(message_id=told[n].message_id)
            store.number(stored, 0 if unit is not None else 7 - stored.out.priority)
        store.place(to, drafts, unit)
    return [Position(stored, topic) for stored in told]


def refuse(store: Store, to: Queue, drafts: list[Stored], before: list[Stored]) -> None:
    """Raise if a subscriber would refuse its copy."""
    if not drafts:
        return
    if to.properties.put_inhibited:
        raise PutInhibited()
    if any(s.size > to.properties.max_message_bytes for s in drafts):
        raise MessageTooLarge()
    if store.full([*before, *drafts]):
        raise ManagerQuotaExceeded()
    if to.full(drafts):
        raise QueueQuotaExceeded()


def wants(selector: str | None, out: Outgoing) -> bool:
    """Return whether the selector of the subscriber selects the message; only its properties are considered."""
    if selector is None:
        return True
    return parse(selector).matches(out.properties)
