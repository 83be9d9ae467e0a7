"""Parsing of broker URLs, without connecting.

``drivers.connect`` and the kombu transport call it, and ``cli.admin`` for the number of the database. ``cli.work`` and
``worker.metrics`` spell an ``address`` of the exporter. The docstring of ``connect`` in both interfaces lists the forms
for users.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from mqredis.drivers.net.redaction import redact
from mqredis.errors import InvalidArgument

FORMS = (
    "redis:// rediss:// valkey:// valkeys://, each also with +sentinel or +cluster before the ://; unix:///path "
    "embedded:///directory memory://name"
)
REDIS_PORT = 6379
SENTINEL_PORT = 26379

_SCHEMES = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss"}
_BOOLEANS = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(
    ("0", "false", "no", "off"), False
)
# Options that a URL may carry, and their types. Options that the driver sets itself are not among them. Our own
# connections have to follow a new one (``endpoint``), which a test checks.
_OPTIONS: dict[str, type] = {
    "db": int,
    "username": str,
    "password": str,
    "client_name": str,
    "sentinel_username": str,
    "sentinel_password": str,
    "ssl_keyfile": str,
    "ssl_certfile": str,
    "ssl_password": str,
    "ssl_cert_reqs": str,
    "ssl_ca_certs": str,
    "ssl_ca_path": str,
    "ssl_check_hostname": bool,
    "ssl_ciphers": str,
}
SSL_OPTIONS = tuple(name for name in _OPTIONS if name.startswith("ssl_"))


@dataclass(slots=True)
class Target:
    """A parsed address."""

    kind: str
    """"tcp", "tls", "unix", "sentinel", "cluster", "embedded" or "memory"."""
    database: int = 0
    options: dict[str, Any] = field(default_factory=dict, repr=False)  # the password is among them
    """Keyword arguments of a connection: host, port, path, username, password, ssl_*."""
    nodes: list[tuple[str, int]] = field(default_factory=list)
    """Sentinels, or seeds of a cluster."""
    name: str = ""
    """Name of the primary (sentinel), of the store (memory), or the directory (embedded)."""
    tls: bool = False
    sentinel_options: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Passwords, which must not appear in any text."""
        found = [*self.options.items(), *self.sentinel_options.items()]
        return tuple(str(v) for k, v in found if "password" in k and v)

    @property
    def endpoint(self) -> tuple[str, int] | None:
        """Host and port; None where the address names a socket or several nodes."""
        host = self.options.get("host")
        return (str(host), int(self.options.get("port") or REDIS_PORT)) if host else None

    def describe(self) -> str:
        """The address without credentials."""
        if self.kind == "unix":
            return f"unix://{self.options.get('path', '')}?db={self.database}"
        if self.kind in ("memory", "embedded"):
            return f"{self.kind}://{self.name}"
        scheme = "rediss" if self.tls else "redis"
        if self.kind in ("sentinel", "cluster"):
            nodes = ",".join(address(host, port) for host, port in self.nodes)
            name = f"/{self.name}" if self.name else ""
            return f"{scheme}+{self.kind}://{nodes}{name}/{self.database}"
        return f"{scheme}://{address(self.options['host'], self.options['port'])}/{self.database}"


def address(host: object, port: object) -> str:
    """Host and port as URLs have them: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def _error(why: str) -> InvalidArgument:
    # The URL itself is never repeated: it may hold a password, even where it cannot be parsed.
    return InvalidArgument(f"broker URL: {why}; known forms: {FORMS}")


def parse(url: str) -> Target:
    """Parse an address.

    Raises:
        InvalidArgument: the address makes no sense; the message never repeats it.
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        raise _error("it has no scheme")
    scheme, _, kind = scheme.lower().partition("+")
    try:
        if (scheme, kind) == ("memory", ""):
            return _parse_memory(rest)
        if (scheme, kind) == ("embedded", ""):
            return _parse_embedded(rest)
        if (scheme, kind) == ("unix", ""):
            return _parse_unix(rest)
        if scheme in _SCHEMES:
            tls = _SCHEMES[scheme] == "rediss"
            if not kind:
                return _parse_tcp(rest, tls)
            if kind in ("sentinel", "cluster"):
                return _parse_many(rest, kind, tls)
    except InvalidArgument:
        raise
    except ValueError:
        raise _error("it cannot be read (is a special character in the password written as %XX?)") from None
    raise _error("unknown scheme")


def _options(query: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, values in parse_qs(query, keep_blank_values=True).items():
        kind = _OPTIONS.get(name)
        if kind is None:
            if "@" in query:  # then the name may be a part of a password
                raise _error("an option is unknown (is a ? in the password written as %3F?)")
            raise _error(f"unknown option {redact(name)!r}; known options: {' '.join(sorted(_OPTIONS))}")
        out[name] = _option(name, kind, values[-1])
    return out


def _option(name: str, kind: type, text: str) -> Any:
    try:
        return _BOOLEANS[text.lower()] if kind is bool else kind(text)
    except KeyError:
        raise _error(f"option {name} must be one of {' '.join(_BOOLEANS)}") from None
    except ValueError:
        raise _error(f"option {name} must be of type {kind.__name__}") from None


def _split(rest: str) -> tuple[str, str, dict[str, Any]]:
    """Split what follows ``://`` into the address without credentials, the path, and the options with credentials."""
    if "#" in rest:
        raise _error("it holds '#'; write it as %23 in a password")
    parts = urlsplit(f"//{rest}")
    options = _options(parts.query)
    credentials, at, address = parts.netloc.rpartition("@")
    if at:
        user, colon, password = credentials.partition(":")
        if user:
            options["username"] = unquote(user)
        if colon and password:
            options["password"] = unquote(password)
    if address and "@" in parts.path:  # the path may be a part of a password, and would be shown
        raise _error("it holds '@' behind the host; write / as %2F in a password, and @ as %40 in a name")
    return address, unquote(parts.path), options


def _without_options(rest: str, example: str) -> str:
    """Refuse options and a fragment in the address of a store that has one database and no connections to set up."""
    if "?" in rest or "#" in rest:
        raise _error(f"this form takes no options: write {example}, and ? as %3F and # as %23 in a name")
    return unquote(rest)


def _parse_memory(rest: str) -> Target:
    return Target("memory", name=_without_options(rest.rstrip("/"), "memory://name") or "default")


def _parse_embedded(rest: str) -> Target:
    directory = _without_options(rest, "embedded:///directory")
    if directory and not directory.startswith("/"):
        raise _error("embedded:// takes an absolute path after a third slash: embedded:///var/lib/mqredis")
    return Target("embedded", name=directory)


def _database(text: str, options: dict[str, Any]) -> int:
    number = options.pop("db", None)
    if number is None:
        text = text.strip("/")
        if text and not text.isdigit():
            raise _error("the database must be a number, 0 or more")
        number = int(text or 0)
    if number < 0:
        raise _error("the database must be a number, 0 or more")
    return int(number)


def _endpoint(address: str, port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{address}")
    try:
        found = parts.port
    except ValueError:  # what stands for the port may be a part of a password
        raise _error(
            "the port must be a number up to 65535 (is a special character in the password written as %XX?)"
        ) from None
    return parts.hostname or "localhost", port if found is None else found


def _parse_tcp(rest: str, tls: bool) -> Target:
    address, path, options = _split(rest)
    _refuse_sentinel_options(options)
    database = _database(path, options)
    host, port = _endpoint(address, REDIS_PORT)
    options.update(host=host, port=port)
    return Target("tls" if tls else "tcp", database, _tls(options, tls), tls=tls)


def _parse_unix(rest: str) -> Target:
    address, path, options = _split(rest)
    _refuse_sentinel_options(options)
    if address:
        raise _error("a unix socket needs an absolute path: unix:///path/to/socket")
    if not path.strip("/"):
        raise _error("the path of the unix socket is missing")
    options["path"] = path
    return Target("unix", _database("", options), _tls(options, False))


def _parse_many(rest: str, kind: str, tls: bool) -> Target:
    address, path, options = _split(rest)
    default = SENTINEL_PORT if kind == "sentinel" else REDIS_PORT
    nodes = [_endpoint(part, default) for part in address.split(",") if part]
    if not nodes:
        raise _error("no host is named")
    if kind != "sentinel":
        _refuse_sentinel_options(options)
    sentinel: dict[str, Any] = {}
    for name in ("username", "password"):
        if f"sentinel_{name}" in options:
            sentinel[name] = options.pop(f"sentinel_{name}")
    name = ""
    if kind == "sentinel":
        name, _, path = path.strip("/").partition("/")
        if not name:
            raise _error("the name of the primary is missing: redis+sentinel://host:26379/name/0")
    database = _database(path, options)
    if kind == "cluster" and database:
        raise _error("a cluster has database 0 only")
    return Target(kind, database, _tls(options, tls), nodes, name, tls, sentinel)


def _refuse_sentinel_options(options: dict[str, Any]) -> None:
    if any(name.startswith("sentinel_") for name in options):
        raise _error("sentinel_* options need redis+sentinel://")


def _tls(options: dict[str, Any], tls: bool) -> dict[str, Any]:
    if not tls:
        if any(name.startswith("ssl_") for name in options):
            raise _error("ssl_* options need a TLS scheme, such as rediss://")
    else:
        # Off by default before redis-py 6.
        check = options.get("ssl_cert_reqs", "required") != "none"
        options.setdefault("ssl_check_hostname", check)
    return options
