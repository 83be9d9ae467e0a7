"""``mqredis topic ... | request``: subscriptions, and a request with its reply.

``cli.app`` adds these commands. ``request`` prints the reply as ``receive`` does (``messages.show``), ends with 3
without one in time, and is not logged (docs/cli.md). ``subscribe`` logs the queue as the place of the action, and the
topic as a detail.
"""

from __future__ import annotations

from mqredis.cli.author import logged, operator_option
from mqredis.cli.common import Arguments, Subparsers, command, open_manager, standard_input
from mqredis.cli.messages import show
from mqredis.cli.output import Output
from mqredis.cli.values import wait_seconds
from mqredis.models import Access

COLUMNS = ("topic", "queue", "selector")


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    topic = subparsers.add_parser("topic", help="subscribe queues to topics (queue create NAME --topic)")
    inner = topic.add_subparsers(metavar="ACTION", required=True, dest="action")
    listing = command(inner, "list", "list the subscriptions of a topic", _list)
    listing.add_argument("topic")
    subscribe = command(inner, "subscribe", "let a queue have what is sent to a topic", _subscribe)
    subscribe.add_argument("topic")
    subscribe.add_argument("queue")
    subscribe.add_argument("--selector", metavar="TEXT", help="only messages for which this is true")
    operator_option(subscribe)
    unsubscribe = command(
        inner, "unsubscribe", "end a subscription; the queue keeps what it has", _unsubscribe
    )
    unsubscribe.add_argument("topic")
    unsubscribe.add_argument("queue")
    operator_option(unsubscribe)
    request = command(subparsers, "request", "send a request and print its reply", _request)
    request.add_argument("queue")
    request.add_argument("body", nargs="?", help="text of the body; without it, standard input is the body")
    request.add_argument(
        "--timeout",
        type=wait_seconds,
        default=30.0,
        metavar="SECONDS",
        help="deadline of the reply (default: 30)",
    )
    request.add_argument("--raw", action="store_true", help="nothing but the bytes of the body")


def _list(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        output.rows([found.model_dump() for found in qm.subscriptions(arguments.topic)], COLUMNS)


def _subscribe(arguments: Arguments, output: Output) -> None:
    details = {"topic": arguments.topic, "selector": arguments.selector}
    with open_manager(arguments) as qm, logged(arguments, qm, "subscribe", arguments.queue, **details):
        found = qm.subscribe(arguments.topic, arguments.queue, arguments.selector)
    output.line(f"{found.queue} has what is sent to {found.topic}", **found.model_dump())


def _unsubscribe(arguments: Arguments, output: Output) -> None:
    with (
        open_manager(arguments) as qm,
        logged(arguments, qm, "unsubscribe", arguments.queue, topic=arguments.topic),
    ):
        qm.unsubscribe(arguments.topic, arguments.queue)
    text = f"{arguments.queue} gets nothing more from {arguments.topic}"
    output.line(text, topic=arguments.topic, queue=arguments.queue)


def _request(arguments: Arguments, output: Output) -> None:
    body = standard_input().buffer.read() if arguments.body is None else arguments.body
    with open_manager(arguments) as qm, qm.open(arguments.queue, Access.SEND) as queue:
        show(qm.request(queue, body, timeout=arguments.timeout), arguments, output)
