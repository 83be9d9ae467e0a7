"""The texts of sinks of data pipelines and of their stages, as ``lua/claims/sinks.lua`` writes and describes them.

``operations.publications`` reads all sinks of a manager with it, by plain commands. Who asks for one sink calls a
script (``commands.stages.sink``), so another part of a text changes lua/stage_list.lua and ``commands.stages.Sink``,
too; Spark's writers (``spark.staging``) know ``NONE``. ``tests/contract/test_stored_texts.py`` compares both sides.
"""

from __future__ import annotations

from typing import NamedTuple

# Stands for no identity and for no batch. Operators publish with it, and writers without an identity of their own.
NONE = "-"


class SinkRecord(NamedTuple):
    """A sink: a field of the hash ``sinks``."""

    identity: str  # of the query that owns it; NONE: no query
    committed: int  # the last batch that was published; -1: none
    publishing: int | None  # the batch that is being published; None: none
    since_ms: int  # when a call has last published messages of that batch, in broker time
    stages: tuple[str, ...]  # the names of its stages, which is what a manifest is

    @classmethod
    def parse(cls, text: str) -> SinkRecord:
        """Parse the stored text. Raises ValueError if it has other parts."""
        identity, committed, publishing, since, manifest = text.split(" ")
        batch = None if publishing == NONE else int(publishing)
        return cls(
            identity, int(committed), batch, int(since), tuple(manifest.split(",")) if manifest else ()
        )


class StageRecord(NamedTuple):
    """A stage: a field of a sink's registry."""

    queue: str  # encoded name
    messages: int
    bytes: int
    elements: int  # of its list: a large body is one of its own

    @classmethod
    def parse(cls, text: str) -> StageRecord:
        """Parse the stored text. Raises ValueError if it has other parts. The last part is for scripts alone."""
        queue, messages, size, elements, _special = text.split(" ")
        return cls(queue, int(messages), int(size), int(elements))
