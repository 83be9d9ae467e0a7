"""The transport, which kombu and Celery load for ``mqredis://``: connections, and the delivery to consumers.

kombu calls its methods, ``channel`` calls ``credit_changed``, and ``fetcher`` calls ``requests``, ``deliver`` and
``recreate_deleted`` in the thread of the event loop. A consumer without an event loop calls ``drain_events``, which
does without the fetcher. docs/celery.md lists the addresses, and the options that are read here and in ``channel``.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote as percent
from urllib.parse import urlencode

from kombu.exceptions import ChannelError
from kombu.transport import virtual
from kombu.utils.scheduling import cycle_by_name

import mqredis
from mqredis.commands.settlement import COMMIT
from mqredis.drivers.net.redaction import mask_passwords
from mqredis.drivers.net.urls import SSL_OPTIONS
from mqredis.errors import InvalidArgument, MqError, QueueNotAvailable, QueueNotFound
from mqredis.kombu.channel import Channel
from mqredis.kombu.envelope import unpack
from mqredis.kombu.fetcher import Fetcher, Requests, fetch
from mqredis.kombu.locks import Locks
from mqredis.kombu.store import Store
from mqredis.models.queue import LARGEST_MESSAGE

log = logging.getLogger("mqredis.kombu")

# The lease of delivered messages in seconds (docs/celery.md: lease, visibility_timeout). Live workers renew it; after a
# crash the messages return.
LEASE_SECONDS = 30.0
# How long a consumer that may not receive sleeps before it looks at its limits again.
_NO_CREDIT_SECONDS = 1.0
# Names of modes of verification, which Celery's users give as constants of ssl.
_VERIFY = {ssl.CERT_NONE: "none", ssl.CERT_OPTIONAL: "optional", ssl.CERT_REQUIRED: "required"}


class Transport(virtual.Transport):  # type: ignore[misc]  # kombu has no types
    """kombu transport over a queue manager of mqredis."""

    Channel = Channel
    # Celery allows mingle, gossip and worker_disable_prefetch only for drivers that it knows.
    driver_type = "redis"
    driver_name = "mqredis"
    default_port = 6379
    connection_errors = (
        mqredis.BrokerUnavailable,
        mqredis.OutcomeUnknown,
        mqredis.BrokerRefused,
        mqredis.HistoryRolledBack,
        mqredis.ManagerNotFound,
        mqredis.SessionExpired,
        OSError,
        EOFError,
    )
    channel_errors = (ChannelError, MqError)
    # After these kombu connects anew and publishes again, and raises OperationalError in the end. A message that the
    # broker refuses would be refused again, so the error keeps its class.
    recoverable_connection_errors = connection_errors
    recoverable_channel_errors = ()
    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset(["direct", "topic", "fanout"])
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        options = client.transport_options
        # kombu parses addresses with one host only.
        self.can_parse_url = "://" in (client.hostname or "")
        self.store: Any = None
        self.locks: Any = None
        # The turn of the queues, and its lock: several threads change it (``credit_changed``).
        self._order = cycle_by_name(options.get("queue_order_strategy", "round_robin"))()
        self._turns = threading.Lock()
        self._fetcher: Fetcher | None = None
        # Set when consumers or limits have changed, in any thread. It ends a wait before that begins (``stop`` of
        # ``fetch``); cancelling ``_scope`` ends one that has begun.
        self._changed = threading.Event()
        self._waiting = False
        self._scope = object()

    def driver_version(self) -> str:
        """Version of mqredis."""
        return mqredis.__version__

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """The address without passwords, for addresses that kombu does not parse."""
        if not include_password:
            uri = mask_passwords(uri, mask)
        return f"mqredis+{uri}"

    # ---- connections -----------------------------------------------------------------------------

    def establish_connection(self) -> Transport:
        """Connect to the broker."""
        options = self.client.transport_options
        lease = float(
            options.get("lease", min(LEASE_SECONDS, float(options.get("visibility_timeout", 3600))))
        )
        manager = mqredis.connect(
            self.url(), manager=options.get("manager", "default"), settings=self._settings()
        )
        self.store, self.locks = Store(manager, lease), Locks(lease)
        connection: Transport = super().establish_connection()
        return connection

    def close_connection(self, connection: Any) -> None:
        """Give messages back that were not acknowledged, and disconnect."""
        if self._fetcher is not None:
            self._fetcher.close()
            self._fetcher = None
        try:
            super().close_connection(connection)
        except MqError as error:
            log.info("the connection was closed without its farewell: %s", error)
        if self.store is not None:
            self.locks.close()
            self.store.close()

    def _settings(self) -> mqredis.Settings:
        options = dict(self.client.transport_options.get("settings") or {})
        options.setdefault("connect_timeout_seconds", float(self.client.connect_timeout or 5))
        options.setdefault("max_message_bytes", LARGEST_MESSAGE)
        return mqredis.Settings.from_env(**options)

    def url(self) -> str:
        """The URL of the broker for mqredis.connect."""
        client = self.client
        host = client.hostname or "localhost"
        if "://" in host:
            return str(host)
        if ":" in host:
            host = f"[{host}]"  # IPv6
        secret = client.password() if callable(client.password) else client.password
        user = percent(client.userid or "", safe="")
        login = f"{user}:{percent(secret, safe='')}@" if secret else (f"{user}@" if user else "")
        database = str(client.virtual_host or "").strip("/") or "0"
        query = ""
        if isinstance(client.ssl, dict):
            query = "?" + urlencode(_ssl_options(client.ssl))
        scheme = "rediss" if client.ssl else "redis"
        return f"{scheme}://{login}{host}:{client.port or self.default_port}/{database}{query}"

    # ---- delivery --------------------------------------------------------------------------------

    def _consumed(self) -> dict[str, tuple[Any, int]]:
        """The queues from which messages may be delivered now, each with its channel and its limit.

        kombu has one callback for all consumers of a queue, and drops it when any of them ends.
        """
        found: dict[str, tuple[Any, int]] = {}
        for channel in list(self.channels):
            if channel._consumers and not channel.closed:
                credit = channel.qos.credit()
                for queue in channel._active_queues if credit else ():
                    if queue in self._callbacks:
                        found[queue] = (channel, credit)
        return found

    def requests(self) -> Requests:
        """Queues from which messages may be delivered now, in their turn, and how many."""
        with self._turns:
            consumed = self._consumed()
            known = [queue for queue in self._order.items if queue in consumed]
            self._order.update([*known, *(queue for queue in consumed if queue not in known)])
            return [(queue, consumed[queue][1]) for queue in self._order.consume(len(consumed))]

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Fetch once, with a wait, and deliver the messages. Raises socket.timeout."""
        end = None if timeout is None else time.monotonic() + timeout
        if self._fetcher is not None and self._fetcher.deliver():
            return
        while True:
            self._changed.clear()
            left = None if end is None else max(end - time.monotonic(), 0.0)
            requests = self.requests()
            if not requests:
                seconds = _NO_CREDIT_SECONDS if left is None else min(left, _NO_CREDIT_SECONDS)
                self._changed.wait(seconds)
            else:
                self._waiting = True
                try:
                    found = fetch(self, requests, left, self._scope, self._changed.is_set)
                except (QueueNotFound, QueueNotAvailable):
                    self.recreate_deleted()
                    found = None
                finally:
                    self._waiting = False
                if found is not None:
                    self.deliver(*found)
                    return
            if end is not None and time.monotonic() >= end:
                raise TimeoutError

    def deliver(self, queue: str, tags: Iterable[str]) -> None:
        """Pass locked messages to the consumer of their queue. Messages beyond its limit are given back."""
        with self._turns:
            self._order.rotate(queue)
        waiting = deque(tags)
        try:
            if queue in (consumed := self._consumed()):
                self._deliver_to(consumed[queue][0], queue, waiting)
        finally:  # also if a callback raises
            self.locks.give_back(waiting)

    def _deliver_to(self, channel: Any, queue: str, waiting: deque[str]) -> None:
        """Pass messages to the consumer for as long as it takes them, and remove those from ``waiting``.

        A message that needs no acknowledgement is committed just before its callback: the others are not lost if a
        callback raises.
        """
        needs_ack = channel.needs_ack(queue)
        while waiting and queue in self._callbacks and (channel.qos.can_consume() or not needs_ack):
            tag = waiting.popleft()
            lock = self.locks.held(tag)
            if lock is not None and (needs_ack or self.locks.settle(tag, COMMIT)):
                self._callbacks[queue](unpack(lock.message, tag))

    def credit_changed(self) -> None:
        """Consumers or limits have changed. Called in any thread, since any may acknowledge a message."""
        self._changed.set()
        if self._waiting:
            self.store.manager.driver.cancel(self._scope)
        fetcher = self._fetcher  # another thread may close the connection meanwhile
        if fetcher is not None:
            fetcher.update()

    def recreate_deleted(self) -> None:
        """Create deleted queues again if messages may be delivered from them now."""
        for queue, (channel, _) in self._consumed().items():
            try:
                self.store.reopen_deleted(queue)
            except QueueNotFound:
                log.info("queue %r was deleted while it had a consumer; recreating it", queue)
                self._recreate(queue, channel)

    def _recreate(self, queue: str, channel: Any) -> None:
        """Create a queue with the arguments and bindings that this connection declared."""
        self.store.recreate(queue)
        for exchange, routing_key, arguments in list(self.state.queue_bindings(queue)):
            meta = channel.typeof(exchange).prepare_bind(queue, exchange, routing_key, arguments)
            channel._queue_bind(exchange, *meta)

    # ---- the event loop --------------------------------------------------------------------------

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Let kombu's hub deliver: a thread waits at the broker, the hub's thread does everything else."""
        if self._fetcher is not None:
            self._fetcher.close()
        self._fetcher = Fetcher(self, loop)


def _ssl_options(use_ssl: dict[str, Any]) -> dict[str, object]:
    """Options of a rediss URL from ``broker_use_ssl``; None stands for the default. Raises InvalidArgument."""
    if unknown := sorted(map(str, use_ssl.keys() - set(SSL_OPTIONS))):
        raise InvalidArgument(
            f"unknown option {unknown[0]!r:.60} in broker_use_ssl; known options: {' '.join(SSL_OPTIONS)}"
        )
    options = {name: value for name, value in use_ssl.items() if value is not None}
    verify = options.get("ssl_cert_reqs")
    if isinstance(verify, ssl.VerifyMode):
        options["ssl_cert_reqs"] = _VERIFY[verify]
    return options
