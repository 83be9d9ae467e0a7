"""Message <-> the text kept in Redis. ``lua/core/record.lua`` documents the format and reads the same.

Commands decode replies with it, operations encode what is sent, the selectors escape their texts, and Spark decodes
what it reads without a client's calls; ``otel.patches`` asks how many properties a message may have. The other modules
of this package have the texts that are stored beside messages: each is imported by itself.

A record is text up to the first NUL, so that a script finds a field with a plain search.
"""

from __future__ import annotations

from mqredis.codec.decode import (
    Checked,
    Raw,
    Rows,
    build,
    build_each,
    check,
    check_each,
    decode,
    decode_each,
    rows,
)
from mqredis.codec.encode import Batch, encode, encode_each
from mqredis.models.header import DEFAULT_CONTENT_TYPE
from mqredis.models.lookup_ids import generated_id, token_of
from mqredis.models.outgoing import INLINE_BODY_BYTES
from mqredis.models.properties import MAX_PROPERTIES
from mqredis.models.text import (
    escape,
    identifier,
    milliseconds,
    names,
    time_at,
    unescape,
)

__all__ = [
    "DEFAULT_CONTENT_TYPE",
    "INLINE_BODY_BYTES",
    "MAX_PROPERTIES",
    "Batch",
    "Checked",
    "Raw",
    "Rows",
    "build",
    "build_each",
    "check",
    "check_each",
    "decode",
    "decode_each",
    "encode",
    "encode_each",
    "escape",
    "generated_id",
    "identifier",
    "milliseconds",
    "names",
    "rows",
    "time_at",
    "token_of",
    "unescape",
]
