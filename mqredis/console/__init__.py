"""The web console: shows queue managers in a browser, and acts on them. ``docs/console.md`` is its manual.

Applications import from here; ``cli.console`` imports ``serve``. It needs the extra ``console``.
"""

from __future__ import annotations

from mqredis.errors import MissingDependency

try:
    from mqredis.console.access import Access, Visitor, everyone
    from mqredis.console.application import app
except ImportError as error:
    raise MissingDependency.of("mqredis.console", "console", error) from None

__all__ = ["Access", "Visitor", "app", "everyone"]
