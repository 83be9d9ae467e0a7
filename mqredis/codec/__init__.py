"""Message <-> the text kept in Redis. ``lua/core/record.lua`` documents the format and reads the same.

Commands decode replies with it, operations encode what is sent, and Spark decodes what it reads without a client's
calls. The other modules of this package have the texts that are stored beside messages: each is imported by itself.

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
from mqredis.codec.encode import INLINE_BODY_BYTES, Batch, encode, encode_each

__all__ = [
    "INLINE_BODY_BYTES",
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
    "rows",
]
