# Generated from mqredis/asyncio/__init__.py by tools/generate_blocking.py. Do not edit: run `make format`.
"""The blocking interface.

Applications and the console use it, and ``otel.patches`` wraps its methods. A new public method or argument needs a row
in ``tests/bad_input/test_every_call.py``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mqredis.client.locked import LockedMessage
from mqredis.client.manager import QueueManager
from mqredis.client.queue import Queue
from mqredis.client.transaction import Transaction
from mqredis.drivers.connect import open_backend
from mqredis.drivers.sync import Driver
from mqredis.keys import ManagerKeys
from mqredis.operations import checks, server_checks
from mqredis.operations.context import Context, prepared
from mqredis.sealing import Sealer
from mqredis.settings import Settings

if TYPE_CHECKING:
    from mqredis.client.browser import Browser
    from mqredis.client.cursor import Cursor
    from mqredis.client.group import GroupWriter
    from mqredis.client.operator import Operator

__all__ = [
    "Browser",
    "Cursor",
    "GroupWriter",
    "LockedMessage",
    "Operator",
    "Queue",
    "QueueManager",
    "Transaction",
    "connect",
]

# Classes that few programs use, and their modules, which are imported at the first use.
_LAZY = {"Browser": "browser", "Cursor": "cursor", "GroupWriter": "group", "Operator": "operator"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


@checks.options("connect()", Settings.model_fields)
def connect(
    url: Any = None,
    *,
    manager: str | None = None,
    settings: Settings | None = None,
    sealer: Sealer | None = None,
) -> QueueManager:
    """Connect to a queue manager, creating it if the server does not have it yet and the client may change something.

    Use ``connect(...)`` or ``with connect(...)``.

    ``url``: redis:// rediss:// valkey:// valkeys:// unix:// redis+sentinel:// redis+cluster:// embedded:///dir
    memory://name, or an existing redis-py client; None: that of the settings, else ``MQREDIS_URL``, else the embedded
    default. ``settings``: all settings; None: those of the environment (``Settings.from_env()``).
    ``manager``: its name ("default" unless the settings say otherwise). ``sealer``: seals the bodies (mqredis.sealing).

    Raises BrokerUnavailable, BrokerRefused, UnsafeServer, SchemaTooNew, SchemaTooOld, InvalidArgument, ManagerNotFound
    (a read-only client creates none), MissingDependency (memory:// without fakeredis).
    """
    settings, where = prepared(url, manager, settings, sealer)
    keys = ManagerKeys(settings.manager)
    driver = Driver(settings, keys, open_backend(where, settings, keys.own[0]))
    try:
        driver.ask(server_checks.admit(keys, settings, driver.backend.database))
        driver.open()
    except BaseException:
        driver.close()
        raise
    context = Context(
        keys, settings, driver.backend.database, driver.incarnation, driver.core.server_state, sealer
    )
    driver.on_fork = context.after_fork
    return QueueManager(driver, context)
