"""Selectors: conditions on header fields and properties, as Jakarta Messaging and IBM MQ have them.

``operations.matching`` and ``operations.topics`` parse what callers pass, and send its ``program`` to the broker;
``spark.fetch`` tests messages here, with ``Selector.matches`` and ``header_of``.

mqredis imports this package when the first selector is used, and ``parse`` imports lark when it is first called.

Change together with: ``lua/selector``, which runs programs by the same rules. tests/selector runs random selectors on
both sides. ``nodes`` says what a new condition takes along.
"""

from mqredis.selector.lexer import MAX_BYTES, MAX_DEPTH, MAX_NODES
from mqredis.selector.names import header_of
from mqredis.selector.parser import parse
from mqredis.selector.selector import Selector

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_NODES", "Selector", "header_of", "parse"]
