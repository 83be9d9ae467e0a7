"""The drivers: the only importers of redis-py. They run operations (generators of steps) against a server."""

from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.connect import forget_store, open_async_backend, open_backend
from mqredis.drivers.sync import Driver

__all__ = ["AsyncDriver", "Driver", "forget_store", "open_async_backend", "open_backend"]
