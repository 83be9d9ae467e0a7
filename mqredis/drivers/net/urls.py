"""Parsing of broker URLs, without connecting, and the function that hides secrets in texts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from mqredis.errors import InvalidArgument

FORMS = (
    "redis:// rediss:// valkey:// valkeys:// unix:// redis+sentinel:// redis+cluster:// "
    "rediss+sentinel:// rediss+cluster:// embedded:/// memory://"
)

_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@")
_QUERY = re.compile(r"(?i)((?:password|secret|token)=)[^&\s]*")

_TRUE = frozenset(("1", "true", "yes", "on"))
# Options that a URL may carry, and their types. Options that the driver sets itself are not among them.
_OPTIONS: dict[str, type] = {
    "db": int,
    "username": str,
    "password": str,
    "client_name": str,
    "socket_keepalive": bool,
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


def redact(text: object, *secrets: str | None) -> str:
    """The text without credentials: those in URLs, and each of ``secrets`` however it is quoted."""
    out = _QUERY.sub(r"\1***", _CREDENTIALS.sub("***@", str(text)))
    for secret in secrets:
        if secret:
            for form in {secret, quote(secret, safe=""), repr(secret)[1:-1]}:
                out = out.replace(form, "***")
    return out


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
        return (str(host), int(self.options.get("port") or 6379)) if host else None

    def describe(self) -> str:
        """The address without credentials."""
        if self.kind == "unix":
            return f"unix://{self.options.get('path', '')}?db={self.database}"
        if self.kind in ("memory", "embedded"):
            return f"{self.kind}://{self.name}"
        scheme = "rediss" if self.tls else "redis"
        if self.kind in ("sentinel", "cluster"):
            nodes = ",".join(_address(host, port) for host, port in self.nodes)
            name = f"/{self.name}" if self.name else ""
            return f"{scheme}+{self.kind}://{nodes}{name}/{self.database}"
        return f"{scheme}://{_address(self.options['host'], self.options['port'])}/{self.database}"


def _address(host: object, port: object) -> str:
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def _fail(why: str) -> InvalidArgument:
    # The URL itself is never repeated: it may hold a password, even where it cannot be parsed.
    return InvalidArgument(f"broker URL: {why}; known forms: {FORMS}")


def parse(url: str) -> Target:
    """Parse an address.

    Raises:
        InvalidArgument: the address makes no sense; the message never repeats it.
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        raise _fail("it has no scheme")
    scheme = scheme.lower().replace("valkeys", "rediss").replace("valkey", "redis")
    try:
        if scheme == "memory":
            return Target("memory", name=unquote(rest.rstrip("/")) or "default")
        if scheme == "embedded":
            return Target("embedded", name=unquote(urlsplit(url).path))
        if scheme == "unix":
            return _parse_unix(rest)
        if scheme in ("redis", "rediss"):
            return _parse_tcp(rest, scheme == "rediss")
        base, _, kind = scheme.partition("+")
        if base in ("redis", "rediss") and kind in ("sentinel", "cluster"):
            return _parse_many(rest, kind, base == "rediss")
    except InvalidArgument:
        raise
    except ValueError:
        raise _fail("it cannot be read (is a special character in the password written as %XX?)") from None
    raise _fail("unknown scheme")


def _options(query: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, values in parse_qs(query, keep_blank_values=True).items():
        kind = _OPTIONS.get(name)
        if kind is None:
            raise _fail(f"unknown option {redact(name)!r}; known options: {' '.join(sorted(_OPTIONS))}")
        text = values[-1]
        try:
            out[name] = text.lower() in _TRUE if kind is bool else kind(text)
        except ValueError:
            raise _fail(f"option {name} must be of type {kind.__name__}") from None
    return out


def _split(rest: str, scheme: str) -> tuple[str, str, str, dict[str, Any]]:
    """Netloc without credentials, path, fragment, options with credentials."""
    if "#" in rest:
        raise _fail("it holds '#'; write it as %23 in a password")
    parts = urlsplit(f"{scheme}://{rest}")
    options = _options(parts.query)
    credentials, at, address = parts.netloc.rpartition("@")
    if at:
        user, colon, password = credentials.partition(":")
        if user:
            options["username"] = unquote(user)
        if colon and password:
            options["password"] = unquote(password)
    return address, unquote(parts.path), scheme, options


def _database(text: str, options: dict[str, Any]) -> int:
    number = options.pop("db", None)
    if number is None:
        text = text.strip("/")
        if text and not text.isdigit():
            raise _fail("the database must be a number")
        number = int(text or 0)
    if number < 0:
        raise _fail("the database must be a number >= 0")
    return int(number)


def _endpoint(address: str, port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{address}")
    found = parts.port
    return parts.hostname or "localhost", port if found is None else found


def _parse_tcp(rest: str, tls: bool) -> Target:
    address, path, _, options = _split(rest, "redis")
    _no_sentinel(options)
    database = _database(path, options)
    host, port = _endpoint(address, 6379)
    options.update(host=host, port=port)
    return Target("tls" if tls else "tcp", database, _tls(options, tls), tls=tls)


def _parse_unix(rest: str) -> Target:
    address, path, _, options = _split(rest, "unix")
    _no_sentinel(options)
    if address:
        raise _fail("a unix socket needs an absolute path: unix:///path/to/socket")
    if not path.strip("/"):
        raise _fail("the path of the unix socket is missing")
    options["path"] = path
    return Target("unix", _database("", options), _tls(options, False))


def _parse_many(rest: str, kind: str, tls: bool) -> Target:
    address, path, _, options = _split(rest, "redis")
    default = 26379 if kind == "sentinel" else 6379
    nodes = [_endpoint(part, default) for part in address.split(",") if part]
    if not nodes:
        raise _fail("no host is named")
    sentinel: dict[str, Any] = {}
    for name in ("username", "password"):
        if f"sentinel_{name}" in options:
            sentinel[name] = options.pop(f"sentinel_{name}")
    name = ""
    if kind == "sentinel":
        name, _, path = path.strip("/").partition("/")
        if not name:
            raise _fail("the name of the primary is missing: redis+sentinel://host:26379/name/0")
    elif sentinel:
        raise _fail("sentinel_* options need redis+sentinel://")
    database = _database(path, options)
    if kind == "cluster" and database:
        raise _fail("a cluster has database 0 only")
    return Target(kind, database, _tls(options, tls), nodes, name, tls, sentinel)


def _no_sentinel(options: dict[str, Any]) -> None:
    if any(name.startswith("sentinel_") for name in options):
        raise _fail("sentinel_* options need redis+sentinel://")


def _tls(options: dict[str, Any], tls: bool) -> dict[str, Any]:
    if not tls:
        if any(name.startswith("ssl_") for name in options):
            raise _fail("ssl_* options need a TLS scheme, such as rediss://")
    else:
        # Off by default before redis-py 6.
        check = options.get("ssl_cert_reqs", "required") != "none"
        options.setdefault("ssl_check_hostname", check)
    return options
