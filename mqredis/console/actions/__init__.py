"""The actions of the console, by name. ``pages.action`` and ``visit`` look them up in ``REGISTRY``.

A new action is an ``Action`` in ``ACTIONS`` of one of these modules, a case in tests/console/test_every_action.py, a
button (the macro ``act``) in a template, and its name in docs/console.md. If it is one of ``Operator``, the log gets a
sentence from console/sentences.py, or else a general one.
"""

from __future__ import annotations

from mqredis.console.actions import holders, managers, messages, queues, schedules, sending, workers
from mqredis.console.actions.base import Action

REGISTRY: dict[str, Action] = {
    action.name: action
    for module in (sending, messages, holders, workers, schedules, queues, managers)
    for action in module.ACTIONS
}
