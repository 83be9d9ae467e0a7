"""A subscription by which other clients see that this process is alive.

``drivers.sync`` makes one for Spark's readers (``spark.waits``): while it lives, no other query takes over its claim.
The scripts ask how many clients subscribe to the channel (lua/claims/claims.lua).
"""

from __future__ import annotations

from typing import Any

from mqredis.drivers.net.wire import REDIS_ERRORS


class Subscription:
    """A subscription to one channel, on a connection of its own. It ends with :meth:`close` or with the process."""

    def __init__(self, connection: Any, channel: str) -> None:
        self._connection = connection
        try:
            connection.send_command("SUBSCRIBE", channel)
            connection.read_response()
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """Is the connection open? Nothing is published to the channel, so a readable connection was closed."""
        try:
            return not self._connection.can_read(0)
        except REDIS_ERRORS:
            return False

    def close(self) -> None:
        """Close the connection."""
        self._connection.disconnect()
