"""The texts of sinks of data pipelines and of their stages, as ``lua/claims/sinks.lua`` writes them.

``operations.publications`` reads them; ``tests/contract/test_stored_texts.py`` compares both sides.
"""

from __future__ import annotations

from typing import NamedTuple

# Stands for no identity and for no batch.
NONE = "-"


class SinkRecord(NamedTuple):
    """A sink: a field of the hash ``sinks``."""

    identity: str  # of the query that owns it
    committed: int  # the last batch that was published; -1: none
    publishing: int | None  # the batch that is being published
    since_ms: int
    stages: tuple[str, ...]  # of that batch

    @classmethod
    def parse(cls, text: str) -> SinkRecord:
        """Parse the stored text."""
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
        """Parse the stored text."""
        queue, messages, size, elements, _special = text.split(" ")
        return cls(queue, int(messages), int(size), int(elements))
