"""The queue managers that one console shows.

``application`` makes it from what it is given (``Where``, which ``serve`` passes on); ``visit``, ``shared`` and
``failure`` look managers up there. Names are parts of addresses and so of bookmarks; the first one is that of "/".
Connections are made in the event loop that asks first, and ``close`` ends only those: an open manager belongs to who
gave it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping

from mqredis.asyncio import QueueManager, connect
from mqredis.errors import InvalidArgument, MqError, lacks_right
from mqredis.operations.checks import type_name
from mqredis.settings import Settings

# An open queue manager, or what is needed to connect to it when it is first asked for.
Where = QueueManager | Settings | str

log = logging.getLogger("mqredis.console")

_NAME = re.compile(r"[A-Za-z0-9._-]{1,60}")


class Managers:
    """Queue managers by the name in their addresses. Those given as a URL or settings are connected to at first use."""

    def __init__(self, managers: Where | Mapping[str, Where] | None, read_only: bool) -> None:
        self._read_only = read_only
        if managers is None:
            managers = Settings.from_env()
        places: Iterable[object] = managers.values() if isinstance(managers, Mapping) else (managers,)
        for where in places:
            if not isinstance(where, Where):
                raise InvalidArgument(
                    "managers: give an open queue manager of mqredis.asyncio, a URL or Settings, not "
                    + type_name(where)
                )
        self._places = dict(managers) if isinstance(managers, Mapping) else {_name_of(managers): managers}
        if not self._places:
            raise InvalidArgument("managers: name at least one queue manager")
        for name in self._places:
            if not _NAME.fullmatch(name):
                raise InvalidArgument(
                    f"managers: {name!r:.80} is not 1 to 60 letters, digits, '.', '_' or '-'"
                )
        self._open: dict[str, QueueManager] = {}
        self._locks = {name: asyncio.Lock() for name in self._places}

    @property
    def names(self) -> list[str]:
        """The names, in the order in which they were given."""
        return list(self._places)

    async def get(self, name: str) -> QueueManager:
        """The open queue manager of this name, which is one of ``names``. Raises what ``connect`` raises.

        A client whose data are gone has said so to the visitor who saw it first; the next one gets a new client.
        """
        where = self._places[name]
        if isinstance(where, QueueManager):
            return where
        async with self._locks[name]:
            if name in self._open and self._open[name].driver.stopped:
                log.warning(
                    "the data of the queue manager %s were replaced: the console connects again", name
                )
                await self._open.pop(name).close()
            if name not in self._open:
                settings = where if isinstance(where, Settings) else Settings.from_env(url=where)
                # The console also has to show a server that would lose messages: its doctor says so.
                changes = {"allow_eviction": True, "read_only": settings.read_only or self._read_only}
                settings = settings.model_copy(update=changes)
                self._open[name] = await connect(settings=settings)
            return self._open[name]

    async def check(self) -> None:
        """Log a warning for each queue manager that cannot be shown."""
        await asyncio.gather(*(self._check(name) for name in self.names))

    async def _check(self, name: str) -> None:
        try:
            await (await self.get(name)).info()
        except MqError as error:
            advice = ""
            if lacks_right(error) and not self._read_only:
                advice = ". If its user may only read, start the console with --read-only"
            log.warning(
                "the queue manager %s cannot be shown: %s%s", name, " ".join(str(error).split()), advice
            )

    async def close(self) -> None:
        """Close what was connected to here."""
        while self._open:
            await self._open.popitem()[1].close()


def _name_of(where: Where) -> str:
    """The name of a manager that was given without one."""
    if isinstance(where, str):
        return "default"
    name = where.name if isinstance(where, QueueManager) else where.manager
    return name if _NAME.fullmatch(name) else "manager"
