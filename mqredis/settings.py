"""The settings of a client, each with an environment variable ``MQREDIS_<NAME>``. A quantity ends in its unit.

``connect`` of both interfaces reads them; drivers, operations, workers and Spark use them. The command line, the
console, ``django.options`` and the pytest plugin make them. ``docs/settings.md`` is made from the docstrings of the
fields (``make format``). The codec cuts names of clients at the length that is allowed here.

Guides and decision pages repeat some defaults (docs/guarantees.md, production.md).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mqredis.errors import InvalidArgument
from mqredis.models import Durability
from mqredis.models.queue import LARGEST_MESSAGE, MESSAGE_BYTES
from mqredis.models.validation import translated

ENV_PREFIX = "MQREDIS_"
# Longest name of a client, in characters. The names of hosts and addresses are cut at this length, too.
LONGEST_CLIENT_NAME = 64
# Longest lease of a lock or a transaction, in seconds: so the messages of a dead reader return within a week.
LONGEST_LEASE = 604_800


class Settings(BaseModel):
    """The settings of a client: ``Settings(lease_seconds=10)`` or ``Settings.from_env()``.

    Raises InvalidArgument for a value out of range and for a name that is no setting.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    url: str | None = Field(default=None, repr=False)  # its password must not be logged
    """URL of the server. None: that of ``MQREDIS_URL``, else a private, persistent server on this machine."""
    manager: str = "default"
    """Name of the queue manager."""
    client_name: str = Field(default="", max_length=LONGEST_CLIENT_NAME)
    """Name that operators see beside the sessions and locks of this client. Empty: the name of the program."""
    read_only: bool = False
    """Change nothing: no session, no timers processed, and AccessDenied for each call that could change something."""
    lease_seconds: float = Field(default=30.0, gt=0, le=LONGEST_LEASE)
    """Seconds that a lock or a transaction lives without renewal."""
    session_ttl_seconds: float = Field(default=3_600.0, ge=1, le=604_800)
    """Seconds without a call after which the broker forgets a session and its operation tokens."""
    retry_seconds: float = Field(default=10.0, ge=0, le=600)
    """Seconds during which a call is repeated after lost connections; 0: no retries."""
    retry_pause_seconds: float = Field(default=0.02, gt=0, le=10)
    """Seconds before the first repetition of a call; each further pause doubles, up to ``retry_pause_max_seconds``."""
    retry_pause_max_seconds: float = Field(default=1.0, gt=0, le=60)
    """Longest pause between two repetitions of a call, in seconds."""
    connect_timeout_seconds: float = Field(default=5.0, gt=0, le=600)
    """Seconds to wait for a connection."""
    reply_timeout_seconds: float = Field(default=5.0, gt=0, le=600)
    """Seconds to wait for one reply of the server."""
    recheck_seconds: float = Field(default=6.0, gt=0, le=60)
    """Seconds after which a waiting reader checks again without having been notified."""
    poll_seconds: float = Field(default=0.05, gt=0, le=60)
    """Polling interval of a waiting reader in seconds, where the server cannot notify."""
    wake: Literal["auto", "keyspace", "publish", "poll"] = "auto"
    """How waiting readers are notified. "auto" tries keyspace notifications, then PUBLISH, then polling."""
    configure_server: bool = False
    """Let the client switch keyspace notifications on with CONFIG SET notify-keyspace-events."""
    mark_interval_seconds: float = Field(default=5.0, ge=-1, le=999_999.999)
    """Seconds that the marks of co-operating browsers last; negative: for ever (IBM MQ's MARKINT)."""
    functions: Literal["auto", "off"] = "auto"
    """Call the scripts as server functions where the server has them (Redis 7, Valkey); "off": by EVALSHA."""
    max_connections: int = Field(default=50, ge=1, le=10_000)
    """Largest number of connections of one client."""
    max_message_bytes: int = Field(default=MESSAGE_BYTES, ge=1, le=LARGEST_MESSAGE)
    """Largest message in bytes, headers included. A queue may allow less."""
    failed_messages_warning: int = Field(default=100, ge=0, le=1_000_000_000)
    """Messages in a ``;poison`` or dead-letter queue above which doctor, statistics and metrics warn."""
    durability: Durability = Durability.MEMORY
    """Durability that a change must reach before its call returns; ``durability=`` of a call overrides it."""
    durability_replicas: int = Field(default=1, ge=1, le=100)
    """Number of replicas that the levels "replica" and "replica-fsync" wait for."""
    durability_seconds: float = Field(default=5.0, gt=0, le=600)
    """Seconds that a call waits for its durability level before it raises DurabilityNotReached."""
    appendfsync_always: bool = False
    """The operator asserts that the server has ``appendfsync always`` and ``no-appendfsync-on-rewrite no``. Used only
    if the client may not read the server's settings; the levels with fsync are refused then unless this is set."""
    allow_eviction: bool = False
    """Accept a server whose eviction policy may delete messages."""
    allow_volatile: bool = False
    """Accept a server without persistence for recoverable messages and transactional queues."""
    test_clock: bool = False
    """Allow ``advance_clock``, which moves the time of the queue manager. Only for tests."""

    if not TYPE_CHECKING:  # type checkers take the signature from the fields

        def __init__(self, **values: Any) -> None:
            with translated(type(self), "setting", lambda text, field: InvalidArgument(text, setting=field)):
                super().__init__(**values)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
        """Settings from ``MQREDIS_URL``, ``MQREDIS_LEASE_SECONDS``, ...; keyword arguments win unless they
        are None.

        Raises InvalidArgument, which names the variable that is wrong and, but for the URL, its value.
        """
        source = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        for name in cls.model_fields:
            text = source.get(ENV_PREFIX + name.upper())
            if text is not None and text != "":
                values[name] = text
        given = {name: value for name, value in overrides.items() if value is not None}
        try:
            return cls(**(values | given))
        except InvalidArgument as error:
            setting: str = error.details["setting"]
            if setting not in values or setting in given or setting == "url":
                raise
            variable = f"{ENV_PREFIX}{setting.upper()}={values[setting]!r:.40}"
            raise InvalidArgument(f"environment variable {variable}: {error}", setting=setting) from None
