"""A server whose power can be cut: what it has written and not synced is gone.

``kill -9`` leaves every written byte in the kernel's memory, so it says nothing about a machine that stops. Here a
small library in the server notes what each ``fsync`` and ``fdatasync`` covered (``synced.c``); the cut kills the server
and shortens its append-only files to that, or to anything between that and what was written. Not shown: disks that say
"synced" and have not, blocks written out of order, and directory entries that were not synced.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Self

import redis

from tests.support.preload import library
from tests.support.server import RedisServer
from tests.support.until import until


class PowerServer(RedisServer):
    """A server with an append-only file, on a machine whose power can be cut.

    :param policy: its ``appendfsync``.
    """

    def __init__(self, policy: str) -> None:
        super().__init__(aof=True, options={"appendfsync": policy})
        # Written bytes that the cuts took away.
        self.gone = 0
        self._notes = self.directory / "synced"
        self.environment = {"LD_PRELOAD": str(library("synced.c")), "MQREDIS_SYNCED": str(self._notes)}

    def start(self) -> Self:
        """Start it; what it has cut from a torn end is no longer on the disk."""
        super().start()
        self._settle()
        return self

    def cut(self, kept: float = 0.0) -> None:
        """Cut the power. ``kept``: this share of what was not synced is on the disk all the same."""
        self.kill()
        synced = self._synced()
        for file in self._files():
            state = file.stat()
            sure = synced.get(state.st_ino, 0)
            left = sure + int((state.st_size - sure) * kept)
            with file.open("r+b") as opened:
                opened.truncate(left)
            self.gone += state.st_size - left

    def rewrite_log(self) -> None:
        """What an administrator does after a power cut (docs/production.md); return when the new log is on the disk."""
        with self.client() as raw:
            raw.bgrewriteaof()
            until(partial(self._is_rewritten, raw), "the log was rewritten", 60)
            if raw.info("persistence")["aof_last_bgrewrite_status"] != "ok":
                raise AssertionError(f"the log was not rewritten:\n{self.log()}")
        self._settle()

    @staticmethod
    def _is_rewritten(raw: redis.Redis) -> bool:
        state = raw.info("persistence")
        return not (state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"])

    def _settle(self) -> None:
        """Files that are gone have left their inodes to others, and none has more on the disk than there is of it."""
        sizes = {state.st_ino: state.st_size for state in (file.stat() for file in self._files())}
        with self._notes.open("a") as notes:
            for inode, synced in self._synced().items():
                notes.write(f"{inode} {min(synced, sizes.get(inode, 0))}\n")

    def _files(self) -> list[Path]:
        """Redis 7 keeps its log as a folder of files, older ones as one file."""
        found = [*self.directory.glob("appendonly*"), *self.directory.glob("appendonlydir/*")]
        return [file for file in found if file.is_file()]

    def _synced(self) -> dict[int, int]:
        """How much of each file is on the disk, by inode."""
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        return {int(inode): int(size) for inode, size in map(str.split, lines)}
