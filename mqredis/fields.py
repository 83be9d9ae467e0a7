"""The keyword arguments of ``send`` and ``create_queue``, for editors and type checkers.

What each means stands at the field of the same name in :class:`~mqredis.models.Outgoing` and
:class:`~mqredis.models.QueueProperties`, which check the values; a test holds names and types together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from mqredis.models import Acknowledge, Identifier, Journal, PropertyValue, RetryPolicy


class MemberFields(TypedDict, total=False):
    """Fields of Outgoing but its body and what a group sets."""

    content_type: str
    label: str
    priority: int
    message_id: Identifier | None
    correlation_id: Identifier | None
    properties: Mapping[str, PropertyValue]
    time_to_be_received: float | None
    time_to_reach_queue: float | None
    sent_seconds_ago: float
    delay: float
    dedup_key: str | None
    dedup_window: float
    recoverable: bool
    acknowledge: Acknowledge
    administration_queue: str | None
    response_queue: str | None
    dead_letter_queue: str | None
    journal: Journal
    app_tag: int
    body_type: int
    extension: bytes


class MessageFields(MemberFields, total=False):
    """Fields of Outgoing but its body."""

    group_id: Identifier | None
    sequence: int | None
    offset: int | None
    last_in_group: bool
    segment: bool
    last_segment: bool


class QueueFields(TypedDict, total=False):
    """Fields of QueueProperties."""

    label: str
    transactional: bool
    quota_bytes: int | None
    quota_messages: int | None
    max_message_bytes: int
    journaling: bool
    journal_quota_bytes: int | None
    journal_quota_messages: int | None
    poison_quota_bytes: int | None
    poison_quota_messages: int | None
    base_priority: int
    type_id: str
    put_inhibited: bool
    get_inhibited: bool
    group_exclusive: bool
    retry: RetryPolicy | None
    topic: bool
