"""Who may see the console, and which actions each visitor may carry out.

Applications that mount the console choose from it (``mqredis.console`` exports it), ``shared`` makes the visitors of a
token, and ``visit`` asks them. ``serve`` lets everybody in without a token. A name of an action, and "bodies", is what
applications grant, so it stays; an unknown name grants nothing and is no error. ``name`` is the operator in the log;
templates/base.html shows it, and "reads only" without ``actions``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request

from mqredis.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person in front of the console, as ``access=`` describes them.

    ``name`` is written to the log of actions. ``actions``: names of the actions that the visitor may carry out, such as
    "send", "redrive" or "purge" (the last part of the address of their form); "all", or none, which leaves reading.
    Raises InvalidArgument for another str than "all".
    """

    name: str
    actions: Collection[str] | Literal["all"] = ()

    def __post_init__(self) -> None:
        # ``in`` would look for a part of the text, and grant "delete" for "delete-queue", too.
        if isinstance(self.actions, str) and self.actions != "all":
            raise InvalidArgument(
                f'actions must be "all" or a tuple of names, such as ("send",), not {self.actions!r:.40}'
            )

    def may(self, action: str) -> bool:
        """Whether the visitor may carry out an action."""
        return self.actions == "all" or action in self.actions


# Finds the visitor of a request; None refuses the request.
Access = Callable[[Request], Visitor | Awaitable[Visitor | None] | None]


def everyone(request: Request) -> Visitor:
    """An ``access=`` that lets every visitor do everything. The visitor's name is the address of the client."""
    return Visitor(request.client.host if request.client else "unknown", "all")
