"""An awaitable that is also an ``async with`` block: ``q = await qm.open(n)`` and ``async with qm.open(n) as q``.

The methods of this package that open or lock something return it (``opening``), and ``otel.patches`` keeps that for
those that it wraps. The blocking interface has nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from functools import wraps
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar

T = TypeVar("T", bound=AbstractAsyncContextManager[Any])
P = ParamSpec("P")


class Pending(Coroutine[Any, Any, T]):
    """The result of a call that opens something; nothing has been done before it is awaited or entered.

    It is a coroutine, so that ``create_task`` takes it.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._opened: T | None = None
        self._call = getattr(coroutine, "__qualname__", "the call")

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{self._call}() was not awaited: write `(await ...).{name}`, or `async with ... as ...`",
            name=name,
            obj=self,
        )

    def __enter__(self) -> NoReturn:
        raise TypeError(f"{self._call}() is asynchronous: write `async with` instead of `with`")

    def __exit__(self, *_: object) -> None:
        """Never called; Python looks for it before it calls ``__enter__``."""

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Continue the coroutine, for an event loop."""
        if value is not None:  # event loops send None; this is Queue.send
            self.__getattr__("send")
        return self._coroutine.send(None)

    def throw(self, *error: Any) -> Any:
        """Raise an error in the coroutine, for an event loop."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End the coroutine."""
        self._coroutine.close()

    async def __aenter__(self) -> T:
        self._opened = await self._coroutine
        entered: T = await self._opened.__aenter__()
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, trace)


def opening(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Pending[T]]:
    """Let a method that opens something be awaited or entered."""

    @wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        return Pending(method(*args, **kwargs))

    return wrapper
