"""The keyword arguments that editors know are the fields that the broker takes, with the same types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

from mqredis.models import Outgoing, PropertyValue, QueueProperties
from mqredis.models.header import MemberFields, MessageFields
from mqredis.models.queue import QueueFields


def types_of(model: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: get_type_hints(model)[name] for name in names}


def test_a_message() -> None:
    wanted = types_of(Outgoing, Outgoing.FIELDS) | {"properties": Mapping[str, PropertyValue]}
    taken = {name: kind | None for name, kind in wanted.items() if name != "body"}  # None: not given
    assert get_type_hints(MessageFields) == taken


def test_a_queue() -> None:
    assert get_type_hints(QueueFields) == types_of(QueueProperties, QueueProperties.model_fields)


def test_what_a_group_sets_its_members_do_not_take() -> None:
    group = {"group_id", "sequence", "offset", "last_in_group", "segment", "last_segment"}
    assert MessageFields.__annotations__.keys() - MemberFields.__annotations__.keys() == group
