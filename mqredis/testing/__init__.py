"""For the tests of applications that use mqredis: fixtures (a pytest plugin) and a few helpers.

The plugin is found by pytest as soon as mqredis is installed; ``docs/testing.md`` shows how to use it.
"""

from __future__ import annotations

from mqredis.testing.helpers import Clock, assert_nothing_sent, assert_sent, drain

__all__ = ["Clock", "assert_nothing_sent", "assert_sent", "drain"]
