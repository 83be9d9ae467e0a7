"""Errors of this package in place of those of pydantic.

Models, ``mqredis.settings``, ``operations.queue`` and ``django.options``, which check what callers pass, use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pydantic import BaseModel, ValidationError

from mqredis.errors import complaint


@contextmanager
def translated(model: type[BaseModel], what: str, error: Callable[[str, str], Exception]) -> Iterator[None]:
    """While this block builds a ``model``: raise ``error(text, field)`` in place of a ``ValidationError``.

    ``text`` begins with ``what`` and says what is wrong without repeating a value. ``field`` is the name of the wrong
    field, or "" if no single field is wrong.
    """
    try:
        yield
    except ValidationError as invalid:
        place = invalid.errors(include_url=False, include_input=False)[0]["loc"][:1]
        text = f"{what} {complaint(invalid, model.model_fields)}"
        raise error(text, "".join(map(str, place))) from None
