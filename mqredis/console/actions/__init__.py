"""The actions of the console, by name."""

from __future__ import annotations

from mqredis.console.actions import managers, messages, queues
from mqredis.console.actions.base import Action

REGISTRY: dict[str, Action] = {
    action.name: action for action in (*messages.ACTIONS, *queues.ACTIONS, *managers.ACTIONS)
}
