"""Ready pipelines: archive, analyse, replay, migrate. As functions, and as commands (``command.py``).

Users import the functions (docs/pipelines.md), and demo/pipelines.py runs all of them.
"""

from __future__ import annotations

from mqredis.spark.pipelines.analyse import analyse
from mqredis.spark.pipelines.archive import archive
from mqredis.spark.pipelines.migrate import migrate
from mqredis.spark.pipelines.replay import replay

__all__ = ["analyse", "archive", "migrate", "replay"]
