"""The actions of the console, by name."""

from __future__ import annotations

from mqredis.console.actions import holders, managers, messages, queues, schedules, sending, workers
from mqredis.console.actions.base import Action

REGISTRY: dict[str, Action] = {
    action.name: action
    for module in (sending, messages, holders, workers, schedules, queues, managers)
    for action in module.ACTIONS
}
