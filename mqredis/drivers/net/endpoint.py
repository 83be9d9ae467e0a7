"""How to connect to servers of one kind, and what our own connections need to know of one server.

``drivers.connect`` makes a ``Connector``; the plan of ``net.discovery`` holds it, and makes another one for Sentinels.
The pools make an ``Endpoint`` of it for each server that they connect to, and ``net.blocking`` and ``net.aio`` dial it.
An option that a URL may have (``net.urls``) has to be in ``_FOLLOWED``, or connections of redis-py are used for such a
URL.
"""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass, field, replace
from typing import Any

import redis
import redis.asyncio as aredis

from mqredis.drivers.net.urls import REDIS_PORT
from mqredis.drivers.net.wire import packed_command

# The connection classes of redis-py that our own connections replace. Others (of a fake, or a user's subclass) are
# used through their public methods.
STOCK = frozenset(
    (
        redis.Connection,
        redis.SSLConnection,
        redis.UnixDomainSocketConnection,
        aredis.Connection,
        aredis.SSLConnection,
        aredis.UnixDomainSocketConnection,
    )
)
# Options that our own connections support. With any other option set, redis-py's connection is used.
_FOLLOWED = frozenset(
    ("host", "port", "path", "db", "username", "password", "client_name", "socket_timeout",
     "socket_connect_timeout", "socket_keepalive", "ssl_keyfile", "ssl_certfile", "ssl_password",
     "ssl_cert_reqs", "ssl_ca_certs", "ssl_ca_path", "ssl_ca_data", "ssl_check_hostname", "ssl_ciphers",
     "ssl_min_version")
)  # fmt: skip
# Options of redis-py that have no effect here: our own connections neither decode nor retry, and ``discovery.prepare``
# switches off what redis-py would announce of itself.
_WITHOUT_MEANING = frozenset(
    ("encoding", "encoding_errors", "decode_responses", "retry", "health_check_interval", "protocol",
     "driver_info", "lib_name", "lib_version", "maint_notifications_config", "socket_read_size",
     "ssl_validate_ocsp", "ssl_validate_ocsp_stapled", "legacy_responses")
)  # fmt: skip
# These have one if they are set: our own connections do not ask for the revocation of certificates.
_OCSP = ("ssl_validate_ocsp", "ssl_validate_ocsp_stapled")
# A TLS context is used for so many seconds. Making one reads the certificates of all authorities, during which an event
# loop stands still for about 35 ms; but certificates are replaced while a process runs.
CONTEXT_SECONDS = 10.0
_CERTIFICATES = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


@dataclass(slots=True)
class Endpoint:
    """One address, and the commands that begin a connection to it."""

    host: str = ""
    port: int = 0
    path: str = ""
    """Path of a unix socket, instead of host and port."""
    tls: ssl.SSLContext | None = None
    keepalive: bool = False
    reply_timeout: float | None = None
    """Seconds that a reply may take; None: the caller keeps the time."""
    greeting: list[bytes] = field(default_factory=list, repr=False)  # the password is in them
    """Packed commands before the first request: AUTH, CLIENT SETNAME, SELECT. One that is refused ends the connection,
    so a further command needs a row in ``CONNECTION`` of ``cli/acl.py``."""


# Options of TLS that name files.
_TLS_FILES = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")


class TlsContext:
    """The TLS context for the options of one kind of server."""

    def __init__(self) -> None:
        # The context, and until when it is used, on the monotonic clock.
        self._made: tuple[ssl.SSLContext, float] | None = None

    def get(self, options: dict[str, Any]) -> ssl.SSLContext:
        """The context. Threads may make one each at the same time. Raises OSError, which names the files."""
        now, made = time.monotonic(), self._made
        if made is None or now >= made[1]:
            try:
                context = _make_context(options)
            except OSError as error:  # ssl does not say which file it is, and what may be wrong with it
                files = ", ".join(f"{name}={options[name]}" for name in _TLS_FILES if options.get(name))
                raise OSError(f"the TLS options {files} cannot be used: {error}") from error
            made = self._made = (context, now + CONTEXT_SECONDS)
        return made[0]


@dataclass(frozen=True, slots=True)
class Connector:
    """How to connect to servers of one kind: a connection class of redis-py and its keyword arguments.

    Our own connections are used instead if these support both (:meth:`endpoint`).
    """

    connection: type[Any]
    kwargs: dict[str, Any] = field(repr=False)
    tls: TlsContext = field(default_factory=TlsContext, repr=False)
    """Shared with all copies: they have the same options of TLS."""

    def having(self, **options: Any) -> Connector:
        """A copy with other options, none of TLS."""
        return replace(self, kwargs=self.kwargs | options)

    def endpoint(self) -> Endpoint | None:
        """The endpoint that the options describe. None: our own connections do not support the class, or an option."""
        given = {
            name: value
            for name, value in self.kwargs.items()
            if name not in _WITHOUT_MEANING and value is not None
        }
        unsupported = self.connection not in STOCK or not _FOLLOWED.issuperset(given)
        if unsupported or any(map(self.kwargs.get, _OCSP)):
            return None
        tls = self.tls.get(given) if "SSL" in self.connection.__name__ else None
        return _endpoint(given, tls)


def _endpoint(given: dict[str, Any], tls: ssl.SSLContext | None) -> Endpoint:
    username, password = given.get("username"), given.get("password")
    greeting: list[tuple[str, ...]] = []
    if password or username:
        greeting.append(("AUTH", *((str(username),) if username else ()), str(password or "")))
    if given.get("client_name"):
        greeting.append(("CLIENT", "SETNAME", str(given["client_name"])))
    if given.get("db"):
        greeting.append(("SELECT", str(given["db"])))
    return Endpoint(
        host=str(given.get("host", "localhost")),
        port=int(given.get("port", REDIS_PORT)),
        path=str(given.get("path", "")),
        tls=tls,
        keepalive=bool(given.get("socket_keepalive")),
        reply_timeout=given.get("socket_timeout"),
        greeting=[packed_command(command) for command in greeting],
    )


def _make_context(options: dict[str, Any]) -> ssl.SSLContext:
    """A TLS context, with the defaults of redis-py."""
    context = ssl.create_default_context()
    wanted = options.get("ssl_cert_reqs", "required")
    mode = _CERTIFICATES[wanted] if isinstance(wanted, str) else wanted
    context.check_hostname = bool(options.get("ssl_check_hostname", True)) and mode is not ssl.CERT_NONE
    context.verify_mode = mode
    if "ssl_certfile" in options or "ssl_keyfile" in options:
        context.load_cert_chain(
            options.get("ssl_certfile") or options["ssl_keyfile"],
            options.get("ssl_keyfile"),
            options.get("ssl_password"),
        )
    authorities = {
        name: options[f"ssl_{option}"]
        for name, option in (("cafile", "ca_certs"), ("capath", "ca_path"), ("cadata", "ca_data"))
        if f"ssl_{option}" in options
    }
    if authorities:
        context.load_verify_locations(**authorities)
    if "ssl_min_version" in options:
        context.minimum_version = options["ssl_min_version"]
    if "ssl_ciphers" in options:
        context.set_ciphers(options["ssl_ciphers"])
    return context
