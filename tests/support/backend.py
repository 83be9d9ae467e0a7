"""The server behind one test: the real one of the session, or a fake of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import fakeredis
import redis
import redis.asyncio

from tests.support.server import RedisServer

ServerKind = Literal["real", "fake"]
# What fakeredis pretends to be; the version that the scripts were first measured on.
FAKE_VERSION = (7, 0, 15)


@dataclass(frozen=True)
class Backend:
    """The server that stores the data of the broker under test. Exactly one of ``real`` and ``fake`` is set."""

    kind: ServerKind
    real: RedisServer | None = None
    fake: fakeredis.FakeServer | None = None

    def client(self, **options: Any) -> redis.Redis:
        """A new synchronous client; the caller closes it."""
        if self.real is not None:
            return self.real.client(**options)
        client: redis.Redis = fakeredis.FakeRedis(server=self.fake, **options)
        return client

    def async_client(self, **options: Any) -> redis.asyncio.Redis:
        """A new asyncio client; the caller closes it."""
        if self.real is not None:
            return redis.asyncio.Redis(unix_socket_path=str(self.real.socket_path), **options)
        client: redis.asyncio.Redis = fakeredis.FakeAsyncRedis(server=self.fake, **options)
        return client


def fake_backend() -> Backend:
    """Return a new fake server: a global variable leaked by a script would affect later scripts on the same one."""
    return Backend("fake", fake=fakeredis.FakeServer(version=FAKE_VERSION))
