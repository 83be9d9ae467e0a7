"""Where to connect, and how: to one node, a Sentinel group or a cluster.

``drivers.connect`` makes a plan. ``net.owner`` and its asyncio twin search for the node (``Search``), and the two pools
connect as the plan says; all of them tell it what they found. Nothing here connects.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from redis.backoff import NoBackoff
from redis.crc import key_slot

from mqredis.drivers.net.endpoint import Connector
from mqredis.drivers.net.redaction import redact
from mqredis.drivers.net.urls import Target
from mqredis.drivers.net.wire import as_text
from mqredis.errors import BrokerUnavailable, InvalidArgument
from mqredis.settings import Settings

# How long, in seconds, each further Sentinel may take once one has answered: one that is down must not delay each
# connection.
FURTHER_SECONDS = 0.2
_UNKNOWN = re.compile(r"unexpected keyword argument '(\w+)'")
# Keyword arguments in a redis-py client's pool that are not for connections.
_POOL_ONLY = frozenset(
    ("connection_pool", "max_connections", "timeout", "maint_notifications_pool_handler", "event_dispatcher",
     "orig_host_address", "orig_socket_timeout", "orig_socket_connect_timeout",
     "maintenance_notification_hash",
     "oss_cluster_maint_notifications_handler", "maintenance_state", "connection_class",
     "retry_on_error", "retry_on_timeout", "parser_class", "command_packer", "himport_registry",
     "check_server_ready", "ssl", "himport_cache")
)  # fmt: skip


def accepted(cls: type[Any]) -> frozenset[str]:
    """Names of the keyword arguments that a connection class takes, its bases included."""
    names: set[str] = set()
    for base in cls.__mro__:
        init = base.__dict__.get("__init__")
        if init is not None:
            try:
                names.update(inspect.signature(init).parameters)
            except (TypeError, ValueError):
                continue
    return frozenset(names)


def prepare(
    cls: type[Any], options: dict[str, Any], settings: Settings, retry: Any, reply: float | None
) -> dict[str, Any]:
    """Keyword arguments of a redis-py connection for use by a driver, from those of a URL or of a user's client.

    No retry inside redis-py: it would run a script twice and hide it. RESP2, because then a subscription's
    messages are plain lists in every release of redis-py; scripts answer the same in both protocols.
    ``reply`` is the socket timeout (None where the driver keeps the time itself).
    """
    known = accepted(cls)
    # A plain object marks an option that the user did not set (socket_keepalive_options since redis-py 8.1).
    out = {
        k: v for k, v in options.items() if k not in _POOL_ONLY and v is not None and type(v) is not object
    }
    ours: dict[str, Any] = {
        "decode_responses": False,
        "encoding": "utf-8",
        "retry": retry(NoBackoff(), 0),
        "health_check_interval": 0,
        "protocol": 2,
        "socket_timeout": reply,
        "socket_connect_timeout": settings.connect_timeout_seconds,
        "socket_keepalive": True,
    }
    if "path" in options:
        del ours["socket_keepalive"]
    if "driver_info" in known:
        ours["driver_info"] = None
    elif "lib_name" in known:
        ours.update(lib_name=None, lib_version=None)
    if "maint_notifications_config" in known:
        ours["maint_notifications_config"] = _quiet()
    out.update({k: v for k, v in ours.items() if k in known})
    return out


def _quiet() -> Any:
    try:
        from redis.maint_notifications import MaintNotificationsConfig
    except ImportError:
        return None
    return MaintNotificationsConfig(enabled=False)


@dataclass(slots=True)
class Plan:
    """What to connect to, and how."""

    target: Target
    settings: Settings
    server: Connector
    """How to connect to a server of the manager."""
    sentinel: Connector | None = None
    """How to connect to a Sentinel, which may have other credentials, and need not speak TLS as the primary does."""
    key: str = ""
    """A key of the manager: its slot decides the node of a cluster."""
    node: tuple[str, int] | None = None
    """The node found last, for Sentinel and cluster."""
    known: list[tuple[str, int]] = field(default_factory=list)
    """The nodes to ask first: the Sentinel that answered last, or the owners found so far in a cluster, which may still
    answer when the seeds are gone."""
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def movable(self) -> bool:
        """Can the manager's node change?"""
        return self.target.kind in ("sentinel", "cluster")

    @property
    def supervised(self) -> bool:
        """Does Sentinel decide which node it is?"""
        return self.target.kind == "sentinel"

    @property
    def memory(self) -> bool:
        """Is the server a fakeredis in this process?"""
        return self.server.connection.__module__.startswith("fakeredis")

    def without_secrets(self, error: Exception) -> Exception | None:
        """The error without passwords in its text; None if it repeats none."""
        text = redact(error, *self.secrets)
        return type(error)(text) if self.secrets and text != str(error) else None

    def patience(self, left: float) -> float:
        """How long a connection may take, in seconds, when the call that needs it has ``left``."""
        return min(self.settings.connect_timeout_seconds, max(left, 0.05))

    def deadline(self, deadline: float, now: float) -> float:
        """When a call that may be repeated until ``deadline`` must have its connection. One that is never repeated
        (``retry_seconds`` 0) has no time left from the start, so its one try has the time to connect."""
        if self.settings.retry_seconds:
            return deadline
        return max(deadline, now + self.settings.connect_timeout_seconds)

    def at(self, node: tuple[str, int] | None) -> Connector:
        """How to connect to this node. An empty host: that of the node in use; None: the only server there is."""
        if node is None:
            return self.server
        if not node[0] and self.node is not None:
            node = (self.node[0], node[1])
        return self.server.having(host=node[0], port=node[1])

    def asking(self, node: tuple[str, int]) -> Connector:
        """How to connect to a node that is asked which one owns the manager (:meth:`query`)."""
        return self.at(node) if self.sentinel is None else self.sentinel.having(host=node[0], port=node[1])

    def candidates(self) -> list[tuple[str, int]]:
        """The nodes to ask which node owns the manager, in order."""
        return [*self.known, *(node for node in self.target.nodes if node not in self.known)]

    def query(self) -> tuple[str, ...]:
        """The command that asks for the node."""
        if self.supervised:
            return ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.target.name)
        return ("CLUSTER", "SLOTS")

    def epoch_query(self) -> tuple[str, ...]:
        """The command that asks a Sentinel for the epoch of its configuration."""
        return ("SENTINEL", "MASTER", self.target.name)

    def learn(self, asked: tuple[str, int], reply: Any) -> tuple[str, int] | None:
        """Take the answer of the node that was asked: the address of the manager's node, or None if it is unknown."""
        node = _primary(reply) if self.supervised else _owner(asked, reply, key_slot(self.key.encode()))
        if node is not None:
            first = asked if self.supervised else node
            self.known = [first, *(other for other in self.known if other != first)][:16]
        return node

    def lost(self, errors: list[str]) -> BrokerUnavailable:
        """The error when no node names the owner; ``errors``: why, for each node that was asked."""
        what = f"primary {self.target.name!r}" if self.supervised else "node of this manager"
        why = "; ".join(errors) or "no node knows it"
        return BrokerUnavailable(
            f"{self.target.describe()}: cannot find the {what}: {redact(why, *self.secrets)}"
        )


class Search:
    """One search for the node that owns the manager.

    In a cluster the first answer counts. Of the Sentinels each one is asked, and the answer with the highest
    configuration epoch counts, which is also the rule by which Sentinels correct each other. A majority would be wrong:
    after a failover the Sentinel that carried it out names the new primary first, and for a moment alone. A Sentinel
    that is cut off from the others names the old one for as long as that lasts.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.errors: list[str] = []
        self.found: tuple[str, int] | None = None
        self._epoch = -1
        self._deadline = monotonic() + plan.settings.connect_timeout_seconds

    def nodes(self) -> Iterator[tuple[str, int]]:
        """The nodes to ask, one after the other."""
        for node in self.plan.candidates():
            if self.found is None or self.plan.supervised:
                yield node

    def deadline(self) -> float:
        """Deadline of the next node to connect and answer. Once a node has answered, the others get less time."""
        return self._deadline if self.found is None else min(self._deadline, monotonic() + FURTHER_SECONDS)

    def take(self, asked: tuple[str, int], reply: Any, master: Any = None) -> None:
        """A node has answered. ``master``: a Sentinel's answer to ``epoch_query``, None if the user may not ask."""
        epoch = _epoch(master)
        node = self.plan.learn(asked, reply)
        if node is not None and epoch > self._epoch:
            self.found, self._epoch = node, epoch

    def failed(self, asked: tuple[str, int], error: Exception) -> None:
        """A node did not answer."""
        self.errors.append(f"{asked[0]}:{asked[1]}: {error}")


def _epoch(master: Any) -> int:
    """The epoch in a flat list of names and values; 0 if there is none."""
    pairs = [as_text(item) for item in master or ()]
    return int(dict(zip(pairs[::2], pairs[1::2], strict=False)).get("config-epoch", "0"))


def _primary(reply: Any) -> tuple[str, int] | None:
    return (as_text(reply[0]), int(reply[1])) if isinstance(reply, list) and len(reply) == 2 else None


def _owner(asked: tuple[str, int], reply: Any, slot: int) -> tuple[str, int] | None:
    for first, last, primary, *_ in reply or ():
        if int(first) <= slot <= int(last):
            return named_node(asked, primary)
    return None


def named_node(asked: tuple[str, int], node: Any) -> tuple[str, int]:
    """The address of a node in CLUSTER SLOTS. No host, an empty one and "?" mean the host that was asked."""
    host, port, *_ = node
    return as_text(host) if host and host != b"?" else asked[0], int(port)


def check_options(plan: Plan) -> None:
    """Build a connection object without connecting. Raises InvalidArgument, without values, if an option is wrong."""
    try:
        connector = plan.at(plan.target.nodes[0] if plan.movable else None)
        connector.connection(**connector.kwargs)
    except TypeError as error:
        found = _UNKNOWN.search(str(error))
        name = found.group(1) if found else "one"
        raise InvalidArgument(
            f"broker URL: option {name} does not fit {plan.target.kind} connections"
        ) from None
    except Exception as error:  # noqa: BLE001 - whatever an option provokes
        raise InvalidArgument(f"broker URL: {redact(error, *plan.secrets)}") from None
