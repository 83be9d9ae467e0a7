"""Copies a Redis list, a Redis stream or a Celery queue into mqredis: each item once, without changing the source.

``mqredis pipeline migrate`` and ``mqredis.spark.pipelines`` call it.

The version of a publication says how far the source was copied, so a later call continues after the committed version.
The broker keeps it under the name of the migration, so neither the names made here nor the numbers in versions
(``_number``, ``ListSource``) may change. docs/pipelines.md describes what becomes of an item. No Spark session is
needed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from mqredis import codec, keys
from mqredis.client import QueueManager
from mqredis.codec.kombu_envelope import PROPERTY, Envelope
from mqredis.commands.stages import Stage
from mqredis.errors import InvalidArgument
from mqredis.models import Outgoing, PropertyValue, QueueInfo
from mqredis.models.header import DEFAULT_CONTENT_TYPE
from mqredis.operations import pipelines
from mqredis.spark.connection import manager_of
from mqredis.spark.pipelines.list_source import ListSource
from mqredis.spark.pipelines.replay import published_rows
from mqredis.spark.staging import (
    CALL_BYTES,
    CALL_MESSAGES,
    NO_IDENTITY,
    Portion,
    named_sink,
    stage_prefix,
    targets,
    unit_of,
)
from mqredis.steps import perform

# Items that one publication takes; stage.lua takes no more.
CHUNK = CALL_MESSAGES
# How long a stage is kept if this process ends before it is published.
_TTL_MS = 3_600_000
# An entry id of a stream is kept as milliseconds times this, plus the number behind the dash.
_PER_MILLISECOND = 4096

# Version of a publication, and its messages.
Chunks = Iterator[tuple[int, list[Outgoing]]]


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
    """Copy the items of a key into a queue. Returns the number of messages sent. A later call copies new items.

    :param source: ``list``, ``stream`` or ``celery`` (a Celery or kombu queue, which is a list of envelopes).
    :param source_url: of the Redis that holds the source: ``redis://``, ``rediss://``, ``unix://`` or
        ``redis+cluster://``.
    :param name: names this migration; default: made from source and key. It remembers up to where it has copied.
    :param newest_left: for lists: producers push on the left and consumers pop on the right, as Celery does.
    :raises InvalidArgument: the key does not exist or holds something else; or the source has changed since the last
        call so that it cannot be said what was copied. Nothing is skipped.
    :raises QueueNotFound: there is no such queue. TransactionUsage: it is a topic.
    :raises MessageTooLarge: an item is larger than the queue's ``max_message_bytes``. Call again with a larger limit.
    :raises UnsafeServer: the server would lose the messages (``server_checks``).
    :raises ConnectionError: the source cannot be reached or refuses the user; what was copied until then is remembered.
    """
    kinds = {"list": "list", "celery": "list", "stream": "stream"}
    if source not in kinds:
        raise InvalidArgument(f"source must be list, stream or celery, not {source!r}")
    client = manager_of(url, manager)
    target = targets(client, {queue})[queue]  # refuses before anything is read
    name = (
        name
        or f"migrate-{source}-{key}".translate(str.maketrans(keys.RESERVED, "_" * len(keys.RESERVED)))[:100]
    )
    begin, sent = published_rows(url, manager, name), 0
    with _source(source_url) as server:
        if not _holds(server, key, kinds[source], begin > 0):
            return 0
        if source == "stream":
            chunks = _stream(server, key, begin)
        else:
            chunks = _list(ListSource(server, key, newest_left, CHUNK), begin, source == "celery")
        for version, messages in chunks:
            sent += _publish(client, named_sink(name), version, target, messages)
    return sent


@contextmanager
def _source(url: str) -> Iterator[Any]:
    """A client of the Redis that holds the source. Raises ConnectionError if that cannot be read, InvalidArgument if
    the URL is wrong."""
    try:
        with _open(url) as server:
            yield server
    except redis.RedisError as error:
        raise ConnectionError(
            f"the source cannot be read: {error}. Is the server running, and is source_url right?"
        ) from None


def _open(url: str) -> Any:
    try:
        if url.startswith("redis+cluster://"):
            return redis.RedisCluster.from_url(url.replace("redis+cluster://", "redis://", 1))
        return redis.Redis.from_url(url)
    except ValueError as error:
        raise InvalidArgument(f"source_url: {error}") from None


def _holds(server: Any, key: str, kind: str, known: bool) -> bool:
    """Check the type of the key. False: it does not exist any more, and something was copied from it before."""
    found = server.type(key).decode()
    if found == kind:
        return True
    if found == "none" and known:
        return False
    if found == "none":
        raise InvalidArgument(f"the source has no key {key!r}")
    fitting = "; use migrate stream" if found == "stream" else "; use migrate list" if found == "list" else ""
    raise InvalidArgument(f"key {key!r} of the source holds a {found}, not a {kind}{fitting}")


def _publish(
    client: QueueManager, sink: str, version: int, target: QueueInfo, messages: list[Outgoing]
) -> int:
    """Send messages as one unit of work, unless this version was published before. Raises MessageTooLarge.

    This does without Spark what ``Stager`` and the driver's commit do.
    """
    context = client.context
    portion = Portion(Stage(stage_prefix(version), target.name), target.max_message_bytes)
    unit = unit_of(sink, version) if target.transactional else ""
    for message in messages:
        line, body = codec.encode(message, unit)
        portion.add([line[1:]], {} if body is None else {0: body})  # without the digit of the priority
        if portion.bytes >= CALL_BYTES:
            _stage(client, sink, version, portion)
    if portion.messages:
        _stage(client, sink, version, portion)
    sent = client.run(pipelines.publish(context, sink, version, NO_IDENTITY, CHUNK, True, [portion.stage]))
    client.run(pipelines.sweep(context, sink, version))
    return sent


def _stage(client: QueueManager, sink: str, version: int, portion: Portion) -> None:
    client.run(perform(portion.call(client.context.keys, sink, version, _TTL_MS)))
    portion.clear()


def _list(source: ListSource, begin: int, celery: bool) -> Chunks:
    for version, items in source.chunks(begin):
        yield version, [envelope(item) if celery else Outgoing(body=item) for item in items]


def _stream(server: Any, key: str, begin: int) -> Chunks:
    """From the oldest entry that was not copied."""
    done = begin
    about = server.xinfo_stream(key)
    if _number(about["last-generated-id"], key) < done:
        raise InvalidArgument(
            f"stream {key!r} ends before the entry that was copied last: it was deleted and made again. Give another "
            "name to copy all of it"
        )
    if done and _is_another(server, key, done, about):
        raise InvalidArgument(
            f"stream {key!r} never had the entry that was copied last under this name, so it is another stream, whose "
            "older entries would be skipped. Give this migration a name of its own"
        )
    while True:
        start = f"({_identity(done)}" if done else "-"
        entries = server.execute_command("XRANGE", key, start, "+", "COUNT", CHUNK)
        if not entries:
            return
        messages = []
        for identity, fields in entries.items() if isinstance(entries, dict) else entries:
            done = _number(identity, key)
            messages.append(_entry(identity.decode(), fields))
        yield done, messages


def _is_another(server: Any, key: str, done: int, about: dict[str, Any]) -> bool:
    """Has the stream older entries than ``done``, but never had this one? ``about``: reply of XINFO STREAM.

    Trimming removes the oldest entries. False before Redis 7, where the server does not tell what was deleted.
    """
    first, deleted = about["first-entry"], about.get("max-deleted-entry-id")
    if not first or deleted is None or _number(first[0], key) > done or _number(deleted, key) >= done:
        return False
    return not server.execute_command("XRANGE", key, _identity(done), _identity(done))


def _identity(number: int) -> str:
    """The entry id with this number."""
    return f"{number // _PER_MILLISECOND}-{number % _PER_MILLISECOND}"


def _number(identity: bytes, key: str) -> int:
    """An entry id as a number that rises with it."""
    ms, _, number = identity.decode().partition("-")
    if int(number) >= _PER_MILLISECOND:
        raise InvalidArgument(f"stream {key!r} has more than {_PER_MILLISECOND} entries in one millisecond")
    return int(ms) * _PER_MILLISECOND + int(number)


def _entry(identity: str, fields: dict[bytes, bytes]) -> Outgoing:
    """A stream entry: ``body`` or ``data`` is the body, other fields are properties: texts, or bytes if not UTF-8."""
    left = dict(fields)
    body = left.pop(b"body", None)
    if body is None:
        body = left.pop(b"data", b"")
    properties = {name.decode("utf-8", "backslashreplace"): _text(value) for name, value in left.items()}
    return Outgoing(body=body, properties=properties, message_id=identity)


def _text(value: bytes) -> PropertyValue:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def envelope(item: bytes) -> Outgoing:
    """A message from kombu's envelope: body, headers as properties, correlation id, reply queue, priority.

    A header that is a list or an object becomes its JSON text; one that is null is left out. The property ``kombu`` has
    all headers: a worker of Celery deletes a message without it as an unknown one.
    """
    try:
        value = json.loads(item)
        properties, headers = value["properties"], value.get("headers") or {}
        body = value["body"]
        data = base64.b64decode(body) if properties.get("body_encoding") == "base64" else str(body).encode()
        kept = {name: _header(header) for name, header in headers.items() if header is not None}
        others = {key: known for key, known in properties.items() if key != "body_encoding"}
        kept[PROPERTY] = json.dumps(Envelope(True, value.get("content-encoding"), headers, others).value())
        priority = properties.get("priority")
        return Outgoing(
            body=data,
            content_type=value.get("content-type") or DEFAULT_CONTENT_TYPE,
            properties=kept,
            correlation_id=properties.get("correlation_id"),
            response_queue=properties.get("reply_to"),
            # Celery's Redis priorities run from 0, the first, to 9, and kombu takes others for the nearest of these.
            priority=3 if not priority else 7 - min(max(int(priority), 0), 9) * 7 // 9,
        )
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise InvalidArgument(f"not a Celery envelope: {item[:60]!r} ({error})") from None


def _header(value: object) -> PropertyValue:
    return value if isinstance(value, str | int | float | bool) else json.dumps(value)
