"""The fields that a sender sets and a reader sees, as attributes and as keyword arguments of ``send``.

``Outgoing`` and ``Message`` derive from it; the methods of both interfaces that send, and those of workers (asyncio and
blocking), take ``MessageFields`` or ``MemberFields``. The selectors and Spark know its ``DEFAULT_CONTENT_TYPE``.

``fields`` says how each is checked, written and read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from mqredis.models.base import Fields
from mqredis.models.enums import Acknowledge, Journal
from mqredis.models.properties import PropertyValue
from mqredis.models.text import Identifier

DEFAULT_CONTENT_TYPE = "application/octet-stream"


class Header(Fields):
    """The fields that a message has before it is sent and after it was read."""

    __slots__ = ()

    content_type: str = DEFAULT_CONTENT_TYPE
    """Media type of the body, at most 255 characters. A body that was given as text has text/plain."""
    label: str = ""
    """Text for people, at most 249 characters."""
    priority: int = 3
    """0 (lowest) to 7 (highest). Messages of higher priority are read first; a transactional queue keeps the order of
    sends."""
    correlation_id: Identifier | None = None
    """Identifier of another message, such as the request that this one answers."""
    group_id: Identifier | None = None
    """Group that the message is part of."""
    last_in_group: bool = False
    """The message is the last one of its group."""
    segment: bool = False
    """The message is a segment of a larger one."""
    last_segment: bool = False
    """The message is the last segment of a larger one."""
    properties: dict[str, PropertyValue] = {}  # noqa: RUF012 - each message has its own
    """Properties that the sender has given, by name. Selectors can test them."""
    recoverable: bool = True
    """The message has to survive a restart of the server. False: it may be lost."""
    acknowledge: Acknowledge = Acknowledge.NONE
    """Which acknowledgements go to ``administration_queue``."""
    administration_queue: str | None = None
    """Queue of the acknowledgements."""
    response_queue: str | None = None
    """Queue of the replies."""
    dead_letter_queue: str | None = None
    """Queue of the dead letter, if ``journal`` asks for one; None: that of the system."""
    journal: Journal = Journal.NONE
    """Whether a sent message is copied to the journal, and whether a failed one becomes a dead letter."""
    app_tag: int = 0
    """Number for programs (PROPID_M_APPSPECIFIC), 0 to 4294967295."""
    body_type: int = 0
    """Number that says what the body is (PROPID_M_BODY_TYPE), 0 to 4294967295."""
    extension: bytes = b""
    """Bytes for programs (PROPID_M_EXTENSION)."""
    dedup_key: str | None = None
    """Messages with the same key are refused for ``dedup_window`` seconds, or while one is in the queue."""


class MemberFields(TypedDict, total=False):
    """Keyword arguments of ``GroupWriter.send``: the fields of Outgoing except the body and those that the group
    sets."""

    content_type: str | None
    label: str | None
    priority: int | None
    message_id: Identifier | None
    correlation_id: Identifier | None
    properties: Mapping[str, PropertyValue] | None
    time_to_be_received: float | None
    time_to_reach_queue: float | None
    sent_seconds_ago: float | None
    delay: float | None
    dedup_key: str | None
    dedup_window: float | None
    recoverable: bool | None
    acknowledge: Acknowledge | None
    administration_queue: str | None
    response_queue: str | None
    dead_letter_queue: str | None
    journal: Journal | None
    app_tag: int | None
    body_type: int | None
    extension: bytes | None


class MessageFields(MemberFields, total=False):
    """Keyword arguments of ``Queue.send``: the fields of Outgoing except the body."""

    group_id: Identifier | None
    sequence: int | None
    offset: int | None
    last_in_group: bool | None
    segment: bool | None
    last_segment: bool | None
