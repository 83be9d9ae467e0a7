"""What our own connections need to know: the address of the server, TLS, credentials and timeouts.

The pools make one for each server that they connect to, and ``net.blocking`` and ``net.aio`` dial it. An option that a
URL may have (``net.urls``) has to be in ``_FOLLOWED``, or connections of redis-py are used for such a URL.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
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
# Options of redis-py that have no effect here, since connections neither decode nor retry.
_WITHOUT_MEANING = frozenset(
    ("encoding", "encoding_errors", "decode_responses", "retry", "health_check_interval", "protocol",
     "driver_info", "lib_name", "lib_version", "maint_notifications_config", "socket_read_size",
     "ssl_validate_ocsp", "ssl_validate_ocsp_stapled", "legacy_responses")
)  # fmt: skip
# These have one if they are set: our own connections do not ask for the revocation of certificates.
_OCSP = ("ssl_validate_ocsp", "ssl_validate_ocsp_stapled")
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
    """Packed commands before the first request: AUTH, CLIENT SETNAME, SELECT."""


def endpoint_of(connection: type[Any], options: dict[str, Any]) -> Endpoint | None:
    """The endpoint that these options of a redis-py connection class describe.

    None: our own connections do not support the class or one of its options.
    """
    if connection not in STOCK:
        return None
    given = {
        name: value for name, value in options.items() if name not in _WITHOUT_MEANING and value is not None
    }
    if not _FOLLOWED.issuperset(given) or any(map(options.get, _OCSP)):
        return None
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
        tls=_tls(given) if "SSL" in connection.__name__ else None,
        keepalive=bool(given.get("socket_keepalive")),
        reply_timeout=given.get("socket_timeout"),
        greeting=[packed_command(command) for command in greeting],
    )


def _tls(options: dict[str, Any]) -> ssl.SSLContext:
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
