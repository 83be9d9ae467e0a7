"""Old names that are accepted for one release, with a warning.

``mqredis.settings``, ``models.queue`` and ``operations.queue`` (properties), ``prometheus.text`` and
``prometheus.collector`` (metrics) and ``cli.app`` (options) look old names up in it.

A change that renames a setting, a property of a queue, an option of the command line or a metric adds a line to
:data:`RENAMED`: the old name and the new one. The line is removed in the second release after the renaming.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

# Of each kind, the new name by the old one.
#
# "setting": fields of Settings, in code and as variables of the environment. "property": properties of queues and
# fields of retry policies. "option": of the command line, with their dashes. "metric": names for Prometheus,
# which are exported as well.
RENAMED: dict[str, dict[str, str]] = {
    "setting": {},
    "property": {},
    "option": {},
    "metric": {"mqredis_worker_seconds_since_look": "mqredis_worker_seconds_since_read"},
}
# Names that users of a program give cause a FutureWarning, which Python shows; names in code a DeprecationWarning.
_CATEGORIES: dict[str, type[Warning]] = {"setting": FutureWarning, "option": FutureWarning}


def current(kind: str, name: str) -> str:
    """The present name of this one, with a warning if it is an old one."""
    new = RENAMED[kind].get(name)
    if new is None:
        return name
    _warn(kind, name, new)
    return new


def fields(kind: str, values: Any) -> Any:
    """Keyword arguments under their present names. A value under the present name wins over one under the old name."""
    if not RENAMED[kind] or not isinstance(values, Mapping):
        return values
    found = {current(kind, name): value for name, value in values.items() if name in RENAMED[kind]}
    return found | {name: value for name, value in values.items() if name not in RENAMED[kind]}


def words(arguments: Sequence[str]) -> list[str]:
    """Words of a command line with present options; what follows ``--`` stays."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    found = []
    for word in arguments[:end]:
        option, sign, value = word.partition("=")
        found.append(current("option", option) + sign + value)
    return [*found, *arguments[end:]]


def former(kind: str, name: str) -> list[str]:
    """The old names of a present one."""
    return [old for old, new in RENAMED[kind].items() if new == name]


def attribute(kind: str, old: str, new: str) -> Any:
    """An attribute that warns and answers as the one with the new name does."""

    def read(self: Any) -> Any:
        _warn(kind, old, new)
        return getattr(self, new)

    return property(read, doc=f"The former name of ``{new}``.")


def _warn(kind: str, old: str, new: str) -> None:
    text = f"{kind} {old!r} is called {new!r} now; the old name will be refused by the next release but one"
    warnings.warn(text, _CATEGORIES.get(kind, DeprecationWarning), stacklevel=4)
