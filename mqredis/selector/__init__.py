"""Selectors: conditions on header fields and properties, as Jakarta Messaging and IBM MQ have them.

mqredis imports this package when the first selector is used, and ``parse`` imports lark when it is first called.
"""

from mqredis.selector.lexer import MAX_BYTES, MAX_DEPTH, MAX_NODES
from mqredis.selector.names import header_of
from mqredis.selector.parser import parse
from mqredis.selector.selector import Selector

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_NODES", "Selector", "header_of", "parse"]
