"""Tasks of an application."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

# What the tasks did.
done: list[Any] = []


@task
def add(x: int, y: int) -> int:
    done.append((x, y))
    return x + y


@task(queue_name="mail", priority=50)
async def mail(to: str) -> dict[str, str]:
    return {"to": to}


@task(takes_context=True)
def attempts(context: Any) -> int:
    return int(context.attempt)


@task
def fails() -> None:
    raise LookupError("there is no such thing")


@task
def exits() -> None:
    sys.exit("a management command has failed")


@task
async def is_cancelled() -> None:
    raise asyncio.CancelledError


@task
def not_json() -> object:
    return object()


@task
def too_large() -> str:
    done.append("too_large")
    return "x" * 5_000_000


@task
def fails_at_length() -> None:
    done.append("fails_at_length")
    raise LookupError("x" * 5_000_000)


@task
def fails_with(given: str, text: str) -> None:
    done.append("fails_with")
    raise LookupError(text)


def no_task() -> None:
    done.append("code that a message chose")
