"""One client per process, broker and queue manager.

All of ``mqredis.spark`` gets its client here, in the driver and in each Python worker of an executor, and raises errors
through ``source_errors`` where Spark shows them. The readers, ``starting`` and ``pipelines.analyse`` ask for the
``backlog`` of a queue.

Spark forks and reuses its Python workers, and pickles readers and writers, so these must not hold a connection: they
hold url and name, and call ``manager_of`` where they run. The client is shared by all threads of its process. It is
closed only if it has stopped, since the data of its manager are gone; else it ends with the process, as does a second
one that two threads make at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import mqredis
from mqredis import Settings
from mqredis.client import QueueManager
from mqredis.commands.claims import Backlog
from mqredis.errors import InvalidArgument, MqError
from mqredis.operations import pipelines

# Documentation page that errors name.
DOCS = "docs/spark.md"
# The reply and retry timeouts of a job are at least this long.
MIN_TIMEOUT_SECONDS = 60.0

# By process, since a forked child must not use the parent's, and by url and name of the manager.
_managers: dict[tuple[int, str, str], QueueManager] = {}


class SourceError(Exception):
    """A broker error with its status in the text, since Spark keeps only the text."""


@contextmanager
def source_errors() -> Iterator[None]:
    """Raise MqError as SourceError, with the status in its text."""
    try:
        yield
    except MqError as error:
        status = int(error.status)
        name = getattr(error.status, "name", type(error).__name__)
        raise SourceError(f"mqredis {name} (0x{status:08X}): {error}") from error


def manager_of(url: str, name: str) -> QueueManager:
    """This process's client of a queue manager."""
    key = (os.getpid(), url, name)
    found = _managers.get(key)
    if found is not None and found.driver.stopped:
        # The manager was flushed, say. Spark keeps this process for later queries, and they read the data of now.
        found.close()
        found = None
    if found is None:
        if not url:
            raise InvalidArgument("set the option url, or MQREDIS_URL for the driver and every executor")
        found = _managers[key] = mqredis.connect(
            url, manager=name, settings=_with_long_timeouts(Settings.from_env(url=url))
        )
    return found


def _with_long_timeouts(settings: Settings) -> Settings:
    """Raise the timeouts: a large publication keeps the server busy for a while, and a job should wait for it."""
    names = ("reply_timeout_seconds", "retry_seconds")
    return settings.model_copy(
        update={name: max(MIN_TIMEOUT_SECONDS, getattr(settings, name)) for name in names}
    )


def backlog(manager: QueueManager, path: str, owner: str = "", bound: str = "", after: str = "") -> Backlog:
    """The backlog of a queue. Raises QueueNotFound. ``owner``: whose claim is asked for as well, "" nobody's.
    ``bound``, ``after``: count only up to this SequentialID, and behind that one; "": all."""
    return manager.run(pipelines.look(manager.context, path, owner, bound, after))
