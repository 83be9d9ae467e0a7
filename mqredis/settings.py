"""All settings in one frozen, picklable model; each has an ``MQREDIS_*`` variable; units in the names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mqredis.errors import InvalidArgument, complaint
from mqredis.models import Durability

ENV_PREFIX = "MQREDIS_"


class Settings(BaseModel):
    """How a client behaves. ``Settings(lease_seconds=10)`` or ``Settings.from_env()``."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    #: Where the broker is. None: the embedded default.
    url: str | None = Field(default=None, repr=False)  # it may hold a password
    #: Name of the queue manager.
    manager: str = "default"
    #: How long a lock or a transaction lives without renewal, in seconds.
    lease_seconds: float = Field(default=30.0, gt=0, le=86_400)
    #: How long a session may lie idle before the broker forgets its operation tokens, in seconds.
    session_ttl_seconds: float = Field(default=3_600.0, ge=1, le=604_800)
    #: How long one call may be retried over lost connections before its outcome is unknown, in seconds; 0: one try.
    retry_seconds: float = Field(default=10.0, ge=0, le=600)
    #: First and longest pause between two tries, in seconds.
    retry_pause_seconds: float = Field(default=0.02, gt=0, le=10)
    retry_pause_max_seconds: float = Field(default=1.0, gt=0, le=60)
    #: How long to wait for a connection and for one reply, in seconds.
    connect_timeout_seconds: float = Field(default=5.0, gt=0, le=600)
    reply_timeout_seconds: float = Field(default=5.0, gt=0, le=600)
    #: After this time one call looks for all who wait in this process, even if nothing rang, in seconds.
    recheck_seconds: float = Field(default=6.0, gt=0, le=60)
    #: Pause between two looks where nobody can ring, in seconds.
    poll_seconds: float = Field(default=0.05, gt=0, le=60)
    #: How waiting readers are woken. "auto" probes: keyspace notification, else publish, else poll.
    wake: Literal["auto", "keyspace", "publish", "poll"] = "auto"
    #: May the client switch keyspace notifications on (CONFIG SET notify-keyspace-events)?
    configure_server: bool = False
    #: How long the marks of co-operating browsers last, in seconds; negative: for ever (IBM MQ's MARKINT).
    mark_interval_seconds: float = Field(default=5.0, ge=-1, le=999_999.999)
    #: Run the scripts as functions of the server where it has them (Redis 7, Valkey): the same text, called faster.
    functions: Literal["auto", "off"] = "auto"
    #: Connections a client keeps at most.
    max_connections: int = Field(default=50, ge=1, le=10_000)
    #: Largest message in bytes, headers included (a queue may allow less).
    max_message_bytes: int = Field(default=4_194_304, ge=1, le=67_108_864)
    #: How far every lasting change must have got before its call returns; ``durability=`` of a call wins.
    durability: Durability = Durability.MEMORY
    #: How many replicas the levels "replica" and "replica-fsync" ask for.
    durability_replicas: int = Field(default=1, ge=1, le=100)
    #: How long a call waits for its level before it raises DurabilityNotReached, in seconds.
    durability_seconds: float = Field(default=5.0, gt=0, le=600)
    #: Accept a server whose eviction policy may delete messages.
    allow_eviction: bool = False
    #: Accept a server that keeps nothing on disk for queues that are recoverable or transactional.
    allow_volatile: bool = False
    #: Allow a test clock: the manager's time may be moved by hand. Only for tests.
    test_clock: bool = False

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
        """Settings from ``MQREDIS_URL``, ``MQREDIS_LEASE_SECONDS``, ...; keyword arguments win."""
        source = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        for name in cls.model_fields:
            text = source.get(ENV_PREFIX + name.upper())
            if text is not None and text != "":
                values[name] = text
        values.update({k: v for k, v in overrides.items() if v is not None})
        try:
            return cls(**values)
        except ValidationError as error:
            raise InvalidArgument(f"setting {complaint(error)}") from None
