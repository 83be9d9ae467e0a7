"""Sealed bodies: without the key, a stored body cannot be read, and a changed one is refused.

``connect`` takes a sealer, and operations seal and open bodies with it (``Context.sealed`` and ``unsealed`` in
``operations.context``, which expects no other error of ``open`` than SealBroken). Messages may be in queues for long,
so the form of a sealed body stays readable. A release takes a form that it does not know for a plain body, so a new
form is written one release after it is first read.

``connect(sealer=AesGcm({"2026-11": key}, current="2026-11"))`` seals every body that is sent and opens every one that
is read. Any object with ``seal`` and ``open`` can be used instead. Only bodies are sealed: labels, properties and
identifiers stay readable, since the broker searches them. ``about`` is associated data, the queue manager's name: a
body sealed for one manager cannot be opened in another. The queue is not part of it, since messages move between queues
(dead letters, journals, moves). A client that may write to the server can exchange sealed bodies of the same manager.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

from mqredis.errors import InvalidArgument, MissingDependency, SealBroken

# What a sealed body begins with; a length byte, the key's id, a nonce and the ciphertext with its tag follow.
MAGIC = b"\x00mqs1"
_NONCE = 12


class Sealer(Protocol):
    """Encrypts and decrypts bodies."""

    def seal(self, body: bytes, about: bytes) -> bytes:
        """The sealed form of a body."""

    def open(self, body: bytes, about: bytes) -> bytes:
        """The body again. Raises SealBroken."""


class AesGcm:
    """AES-GCM with a random nonce. ``keys``: keys of 16, 24 or 32 bytes by their ids; ``current``: id of the one that
    seals.

    To change keys, add the new one everywhere, then make it the current one, and drop the old one when its last message
    is gone. Use one key for at most 2**32 messages. ``accept_plain``: read bodies that are not sealed, while sealing is
    being introduced; any client that may write to the server can forge them.
    """

    def __init__(self, keys: Mapping[str, bytes], current: str, *, accept_plain: bool = False) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise MissingDependency.of("mqredis.sealing", "sealing", error) from None
        self._broken = InvalidTag
        self._keys: dict[bytes, Any] = {}
        if not isinstance(keys, Mapping):
            raise InvalidArgument(f"keys must be a dict of keys by their ids, not {type(keys).__name__}")
        for name, key in keys.items():
            if not isinstance(name, str):
                raise InvalidArgument(f"the id of a key must be a str, not {type(name).__name__}")
            if not isinstance(key, bytes | bytearray):
                raise InvalidArgument(
                    f"key {name!r} must be bytes, not {type(key).__name__}: see bytes.fromhex"
                )
            identity = name.encode()
            if not 0 < len(identity) < 256:
                raise InvalidArgument("the id of a key is 1 to 255 bytes long")
            if len(key) not in (16, 24, 32):
                raise InvalidArgument(f"key {name!r} must have 16, 24 or 32 bytes, not {len(key)}")
            self._keys[identity] = AESGCM(key)
        if current not in keys:
            raise InvalidArgument(f"the current key {current!r} is not among the keys")
        self._current = current.encode()
        self._accept_plain = accept_plain

    def seal(self, body: bytes, about: bytes) -> bytes:
        """The sealed form of a body, with the current key."""
        nonce = os.urandom(_NONCE)
        head = MAGIC + bytes([len(self._current)]) + self._current
        sealed: bytes = self._keys[self._current].encrypt(nonce, body, head + about)
        return head + nonce + sealed

    def open(self, body: bytes, about: bytes) -> bytes:
        """The body again. Raises SealBroken if it is not sealed, with an unknown key, or was changed."""
        if not body.startswith(MAGIC):
            if self._accept_plain:
                return body
            raise SealBroken("the body is not sealed")
        at = len(MAGIC) + 1
        end = at + body[at - 1] if len(body) >= at else at
        key = self._keys.get(body[at:end])
        if key is None:
            raise SealBroken(f"the body is sealed with key {body[at:end][:40]!r}, which is not among ours")
        try:
            opened: bytes = key.decrypt(body[end : end + _NONCE], body[end + _NONCE :], body[:end] + about)
        except (self._broken, ValueError):
            raise SealBroken("the body was changed, or comes from another queue manager") from None
        return opened

    def __repr__(self) -> str:
        names = ", ".join(name.decode() for name in self._keys)
        return f"<AesGcm keys {names}; current {self._current.decode()}>"
