"""The typed keyword arguments are exactly the fields that the broker accepts, with the same types, and the scripts call
fields and options by the same names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_type_hints

from mqredis.codec import decode
from mqredis.commands import queues
from mqredis.errors import InvariantBroken
from mqredis.models import Acknowledge, Outgoing, PropertyValue, QueueProperties
from mqredis.models.fields import FIELDS, READERS
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


LUA = Path(__file__).parents[2] / "lua" / "core"


def table(path: Path, name: str, pattern: str) -> dict[str, str]:
    """The pairs that ``pattern`` finds in the Lua table ``name`` of a file."""
    body = re.search(rf"\b{name} = \{{(.*?)\}}", path.read_text(), re.S)
    assert body is not None
    return dict(re.findall(pattern, body[1]))


def test_scripts_name_the_fields_of_a_record_as_the_client_does() -> None:
    scripts = table(LUA / "record.lua", "fields", r'(\w+) = "\\3(\w)"')
    flags = {"last_in_group", "segment", "last_segment"}  # one field, group_flags
    client = {name: field.mark[1] for name, field in FIELDS.items() if field.mark and name not in flags}
    in_ms = {"sent_seconds_ago": "sent_ms_before"}
    client = {in_ms.get(name, name): key for name, key in client.items()}
    written = {"_original_arrived_ms", "transaction_id", "message_class"}
    written |= {"original_queue", "original_lookup_id", "reason"}
    read = {name.lstrip("_"): key for key, (name, _) in READERS.items() if name in written}
    assert len(read) == len(written)
    assert scripts.items() - client.items() - read.items() == {("trail", "L"), ("trash", "Z")}


def test_scripts_name_the_options_of_a_queue_as_the_client_does() -> None:
    scripts = table(LUA / "queue_config.lua", "letters", r'(\w) = "(\w+)"')
    client = {letter: name for name, letter in (queues.FLAGS | queues.POLICY_FLAGS).items()}
    assert scripts == client | {"s": "system"}


def test_each_property_of_a_queue_is_stored() -> None:
    assert {*queues.FLAGS, *queues.FIELDS, *queues.POLICY_FLAGS} == QueueProperties.model_fields.keys()


def test_records_with_acknowledgements_that_do_not_exist_are_damaged() -> None:
    known = set()
    for number in range(256):
        with suppress(ValueError):
            known.add(Acknowledge(number).value)
    for number in range(1, 256):
        record = b"1764000000000" + b"1\x03a%d\0body" % number
        sound = True
        try:
            decode("q", "", b"0" * 16, b"", record)
        except InvariantBroken:
            sound = False
        assert sound is (number in known), number
