"""Topics: durable publish and subscribe. A subscriber is a queue, with an optional selector.

``QueueManager`` makes them. ``codec.subscriptions`` formats what lua/subscribe.lua stores and each publication reads
(lua/features/topic.lua).
"""

from __future__ import annotations

from mqredis.codec.subscriptions import format_subscription
from mqredis.commands import features
from mqredis.errors import InvalidArgument, InvalidName
from mqredis.keys import subqueue_parts
from mqredis.models import Subscription
from mqredis.operations.context import Context
from mqredis.steps import Steps, perform, procedure


def _name(value: object) -> str:
    name, sub = subqueue_parts(value)
    if sub:
        raise InvalidName(f"{value!r} is a subqueue: topics and subscribers are queues")
    return name


@procedure
def subscribe(context: Context, topic: object, queue: object, selector: object) -> Steps[Subscription]:
    """Subscribe a queue to a topic, or change the selector of its subscription.

    Raises QueueNotFound, InvalidArgument, SelectorSyntaxError.
    """
    name, to = _name(topic), _name(queue)
    if name == to:
        raise InvalidArgument("a topic cannot subscribe to itself")
    if selector is None:
        selection = format_subscription()
    elif isinstance(selector, str):
        # The parser is imported only if there is a selector.
        from mqredis.selector import parse

        parsed = parse(selector, refuse_never=True)
        selection = format_subscription(parsed.text, parsed.program)
    else:
        raise InvalidArgument(f"selector must be a str, not {type(selector).__name__}")
    yield from perform(features.subscribe(context.keys, name, to, selection))
    return Subscription(topic=name, queue=to, selector=selector)


@procedure
def unsubscribe(context: Context, topic: object, queue: object) -> Steps[None]:
    """End a subscription. The queue keeps its messages."""
    yield from perform(features.subscribe(context.keys, _name(topic), _name(queue), b""))


@procedure
def subscriptions(context: Context, topic: object) -> Steps[list[Subscription]]:
    """The subscriptions of a topic, by queue."""
    return (yield from perform(features.subscriptions(context.keys, _name(topic))))
