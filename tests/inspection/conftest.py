"""The clients of these tests: a real server and fakeredis, the blocking and the asyncio interface."""

from __future__ import annotations

from tests.msmq.conftest import connect, qm  # noqa: F401 - fixtures
