"""The actions of the console, by name."""

from __future__ import annotations

from mqredis.console.actions import holders, managers, messages, queues, sending
from mqredis.console.actions.base import Action

REGISTRY: dict[str, Action] = {
    action.name: action
    for action in (*sending.ACTIONS, *messages.ACTIONS, *holders.ACTIONS, *queues.ACTIONS, *managers.ACTIONS)
}
