"""Lookup ids of a reply are accepted only if each has 16 hexadecimal digits."""

from __future__ import annotations

import re

import pytest

from mqredis.models.lookup_ids import checked_ids

ID = b"0400000000000a1f"
DAMAGED = [b"", b"0", ID[1:], ID + b"0", ID.upper(), ID.replace(b"1", b"_"), b" " + ID[1:], ID[:-1] + b"\n"]
DAMAGED += [ID[:at] + wrong + ID[at + 1 :] for at in range(16) for wrong in (b"g", b"\0", b"\xff", b"-")]


@pytest.mark.parametrize("ids", [ID, b"f" * 16, *DAMAGED])
@pytest.mark.parametrize("before", [b"", ID, ID * 2])
def test_only_well_formed_lookup_ids_are_accepted(before: bytes, ids: bytes) -> None:
    given = before + ids
    if re.fullmatch(rb"(?:[0-9a-f]{16})+", given):
        assert checked_ids(given) == given
    else:
        with pytest.raises(ValueError, match="no lookup ids"):
            checked_ids(given)
