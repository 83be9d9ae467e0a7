"""The web console: shows queue managers in a browser, and acts on them. ``docs/console.md`` is its manual."""

from __future__ import annotations

from mqredis.console.access import Access, Visitor, everyone
from mqredis.console.application import app

__all__ = ["Access", "Visitor", "app", "everyone"]
