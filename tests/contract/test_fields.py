"""The typed keyword arguments are exactly the fields that the broker accepts, with the same types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

from mqredis.models import Outgoing, PropertyValue, QueueProperties
from mqredis.models.header import MemberFields, MessageFields
from mqredis.models.queue import QueueFields


def types_of(model: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: get_type_hints(model)[name] for name in names}


def test_message_keyword_arguments_are_the_outgoing_fields() -> None:
    wanted = types_of(Outgoing, Outgoing.FIELDS) | {"properties": Mapping[str, PropertyValue]}
    taken = {name: kind | None for name, kind in wanted.items() if name != "body"}  # None: not given
    assert get_type_hints(MessageFields) == taken


def test_queue_keyword_arguments_are_the_queue_properties() -> None:
    assert get_type_hints(QueueFields) == types_of(QueueProperties, QueueProperties.model_fields)


def test_members_of_a_group_take_no_group_fields() -> None:
    group = {"group_id", "sequence", "offset", "last_in_group", "segment", "last_segment"}
    assert MessageFields.__annotations__.keys() - MemberFields.__annotations__.keys() == group
