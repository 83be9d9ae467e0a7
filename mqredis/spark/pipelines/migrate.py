"""From a Redis list, a Redis stream or a Celery queue into mqredis: exactly once, resumable, the source untouched.

The version of each publication is the place in the source up to which it goes, so what is committed tells where to go
on. Needs no Spark session.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from mqredis import Settings, codec
from mqredis.commands import pipelines as commands
from mqredis.commands.pipelines import Stage
from mqredis.drivers.connect import open_backend
from mqredis.errors import InvalidArgument
from mqredis.models import Outgoing, PropertyValue
from mqredis.operations import pipelines
from mqredis.spark.connection import context_of, manager_of, run
from mqredis.spark.pipelines.replay import done_so_far
from mqredis.steps import perform

#: Items that one publication takes.
CHUNK = 1_000

Items = Iterator[tuple[int, list[Outgoing]]]


def migrate(
    source: str,
    key: str,
    queue: str,
    *,
    source_url: str,
    url: str,
    manager: str = "default",
    name: str = "",
    newest_left: bool = True,
) -> int:
    """Copy what a key holds into a queue; answers how many messages were sent. Call it again for what came since.

    :param source: ``list``, ``stream`` or ``celery`` (a Celery or kombu queue, which is a list of envelopes).
    :param name: names this migration; default: made from source and key. It remembers how far it is.
    :param newest_left: for lists: producers push on the left and consumers pop on the right, as Celery does.
    """
    readers = {"list": _list, "celery": _list, "stream": _stream}
    if source not in readers:
        raise InvalidArgument(f"source must be list, stream or celery, not {source!r}")
    client = manager_of(url, manager)
    client.queue_info(queue)  # a clear refusal before anything is read
    name = name or f"migrate-{source}-{key}".translate(str.maketrans("{}*?[];", "_______"))[:100]
    sink, sent = f"app-{name}", 0
    backend = open_backend(source_url, Settings(url=source_url))
    try:
        link = backend.acquire(time.monotonic() + 5)
        begin = done_so_far(url, manager, name)
        for upto, messages in readers[source](link, key, begin, source == "celery", newest_left):
            encoded = [codec.encode(message) for message in messages]
            stage = Stage(f"{upto}-{uuid.uuid4().hex}-0", queue)
            size = sum(len(line) + 12 + len(large or b"") for line, large in encoded)
            elements = [part for line, large in encoded for part in (line, large) if part is not None]
            special = any(int(line[1:2], 32) & 1 for line, _ in encoded)  # flag bit 1
            context = context_of(client)
            what = (len(encoded), size, special, elements)
            run(client, perform(commands.stage(context.keys, sink, upto, stage, 3_600_000, *what)))
            sent += run(client, pipelines.publish(context, sink, upto, "-", CHUNK, True, [stage]))
            run(client, pipelines.sweep(context, sink, upto))
    finally:
        backend.close()
    return sent


def _list(link: Any, key: str, begin: int, celery: bool, newest_left: bool) -> Items:
    """From the oldest item on. Places count from the end at which consumers pop, so that pushes do not move them."""
    done = begin
    while True:
        if newest_left:
            items = link.command("LRANGE", key, -(done + CHUNK), -(done + 1))[::-1]
        else:
            items = link.command("LRANGE", key, done, done + CHUNK - 1)
        if not items:
            return
        done += len(items)
        yield done, [envelope(item) if celery else Outgoing(body=item) for item in items]


def _stream(link: Any, key: str, begin: int, _celery: bool, _newest_left: bool) -> Items:
    """From the oldest entry on. A place is the entry's id: milliseconds times 4096 plus its sequence."""
    done = begin
    while True:
        start = f"({done >> 12}-{done & 4095}" if done else "-"
        entries = link.command("XRANGE", key, start, "+", "COUNT", CHUNK)
        if not entries:
            return
        messages = []
        for identity, pairs in entries:
            ms, _, number = identity.decode().partition("-")
            if int(number) > 4095:
                raise InvalidArgument(f"stream {key!r} has more than 4096 entries in one millisecond")
            done = int(ms) << 12 | int(number)
            fields = {pairs[n].decode(): pairs[n + 1] for n in range(0, len(pairs), 2)}
            body = fields.pop("body", None)
            if body is None:
                body = fields.pop("data", b"")
            properties = {name: value.decode("utf-8", "replace") for name, value in fields.items()}
            messages.append(Outgoing(body=body, properties=properties, message_id=identity.decode()))
        yield done, messages


def envelope(item: bytes) -> Outgoing:
    """A message from kombu's envelope: body, headers as properties, correlation id, reply queue, priority."""
    try:
        value = json.loads(item)
        given, headers = value["properties"], value.get("headers") or {}
        body = value["body"]
    except (ValueError, KeyError, TypeError):
        raise InvalidArgument(f"not a Celery envelope: {item[:60]!r}") from None
    data = base64.b64decode(body) if given.get("body_encoding") == "base64" else str(body).encode()
    kept: dict[str, PropertyValue] = {
        name: v for name, v in headers.items() if isinstance(v, str | int | float | bool) and v is not None
    }
    priority = given.get("priority")
    return Outgoing(
        body=data,
        content_type=value.get("content-type") or codec.DEFAULT_CONTENT_TYPE,
        properties=kept,
        correlation_id=given.get("correlation_id"),
        response_queue=given.get("reply_to"),
        # Celery's Redis priorities run from 0, the first, to 9.
        priority=3 if not priority else max(0, 7 - int(priority) * 7 // 9),
    )
