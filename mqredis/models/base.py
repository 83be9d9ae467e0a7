"""The base class of Outgoing, Message and Sent.

``header``, ``outgoing`` and ``message`` derive from it. Pickle and ``copy`` make an object again from its fields. A
pickle names ``_rebuilt``, the class, their modules and the fields, so a program reads what an earlier release has
pickled as long as these names stay; an earlier release refuses a field that it does not know.

They are plain classes with slots, since one of them is made for each message. They cannot be changed: ``replace`` makes
another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import get_annotations
from typing import Any, ClassVar, Self, dataclass_transform

from mqredis.errors import InvalidArgument, did_you_mean
from mqredis.models.lookup_ids import hex_id

# The default of a field that has none.
REQUIRED: Any = ...
# The fields that hold a lookup id.
LOOKUP_IDS = ("lookup_id", "original_lookup_id")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Fields:
    """Base class of Outgoing, Message and Sent. Each field is a property without a setter."""

    __slots__ = ()
    FIELDS: ClassVar[dict[str, Any]]
    """Name and default of each field: those of the class, then inherited ones. REQUIRED where there is no default."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name."""
        return {name: getattr(self, name) for name in self.FIELDS}

    def replace(self, **changes: Any) -> Self:
        """Return a copy with these changes. Raises InvalidArgument as the constructor does."""
        return type(self)(**{**self._given_fields(), **changes})

    def _given_fields(self) -> dict[str, Any]:
        """The arguments from which ``replace`` and pickle make the object again."""
        return self.to_dict()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment] # the dict in the field `properties` can be changed

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[type, dict[str, Any]]]:
        return _rebuilt, (type(self), self._given_fields())

    def __repr__(self) -> str:
        pairs = ((name, getattr(self, name), default) for name, default in self.FIELDS.items())
        shown = ", ".join(
            f"{name}={_shown(name, value)}" for name, value, default in pairs if value != default
        )
        return f"{type(self).__name__}({shown})"


def _shown(name: str, value: object) -> str:
    """The value of a field in a repr. A lookup id is written in hexadecimal, as in logs and errors."""
    return hex_id(value) if name in LOOKUP_IDS and isinstance(value, int) else repr(value)


def _rebuilt(cls: type[Any], values: dict[str, Any]) -> Any:
    """Make the object of a pickle."""
    return cls(**values)


def checked(cls: type[Fields], values: Mapping[str, Any]) -> dict[str, Any]:
    """All fields of this class: these values, and the defaults of the others."""
    for name in values:
        if name not in cls.FIELDS:
            meant = did_you_mean(name, cls.FIELDS)
            raise InvalidArgument(f"{cls.__name__} has no field {name!r:.60}{meant}")
    found = {**cls.FIELDS, **values}
    missing = [name for name, value in found.items() if value is REQUIRED]
    if missing:
        raise InvalidArgument(f"{cls.__name__} needs {', '.join(missing)}")
    return found


def expose(cls: type[Fields], getter: Callable[[str, Any], property]) -> None:
    """Replace each field of a class, inherited ones included, by the property that ``getter`` returns for it.

    Called once for each class, below its definition: the annotations of its body are its fields.
    """
    cls.FIELDS = {
        name: vars(base).get(name, REQUIRED)
        for base in cls.__mro__[: cls.__mro__.index(Fields)]
        for name in get_annotations(base)
        if name[0] != "_"
    }
    for name, default in cls.FIELDS.items():
        setattr(cls, name, getter(name, default))
