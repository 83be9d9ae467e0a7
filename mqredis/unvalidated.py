"""Models without validating what was validated already: made whole, or such that find their fields when asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)

_DICT: Any = vars(BaseModel)["__dict__"]
#: The fields that a model has already, and the way to put others in their place; past the property of ``Lazy``.
present: Callable[[Any], dict[str, Any]] = _DICT.__get__
put: Callable[[Any, dict[str, Any]], None] = _DICT.__set__
new = object.__new__
_SLOTS = ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
_put_given, _put_extra, _put_private = (vars(BaseModel)[name].__set__ for name in _SLOTS)


def defaults_of(cls: type[BaseModel]) -> dict[str, Any]:
    """All fields of a model in their order, with their defaults; None, which is to be replaced, where there is none."""
    return {name: None if info.is_required() else info.default for name, info in cls.model_fields.items()}


def fill(model: BaseModel, fields: dict[str, Any], given: set[str]) -> None:
    """Give a new model all its fields; ``given``: those that are no defaults."""
    _put_given(model, given)
    _put_extra(model, None)
    _put_private(model, None)
    put(model, fields)


#: Among the fields of a lazy model: what it finds the others with. No field can have this name.
PENDING = ""
#: Given the fields that are there and what is pending (of which it is the first), all fields and which were given.
Whole = Callable[[dict[str, Any], Any], tuple[dict[str, Any], set[str]]]


def lazy(cls: type[M], fields: dict[str, Any]) -> M:
    """A model that has these fields and finds the others when asked: ``fields[PENDING]`` is a tuple of :data:`Whole`,
    of a function that finds one field by itself or raises KeyError, and of what the two want to know.

    Whatever is asked at the same time by several threads is found by each of them, and is the same.
    """
    model = new(cls)
    put(model, fields)
    return model


class _Field:
    """Finds a field of a lazy model that is asked for. What is there already is read past this: nothing is set here.

    Without it Python would word an error of a name that is missing before it asked ``__getattr__``.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, _: object = None) -> Any:
        if model is None:
            raise AttributeError(self._name)  # as pydantic has it: a class has no fields
        fields = present(model)
        pending = fields.get(PENDING)
        if pending is None:
            if self._name in fields:
                return fields[self._name]  # another thread was quicker
            raise AttributeError(self._name)
        try:
            return pending[1](fields, pending, self._name)
        except KeyError:
            return model.__dict__[self._name]


class Lazy(BaseModel):
    """A model that may be made by :func:`lazy`. Nobody sees the difference: who asks for all fields gets them all."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for name in cls.__pydantic_fields__:
            setattr(cls, name, _Field(name))

    if not TYPE_CHECKING:  # a type checker would take any name for a field

        @property
        def __dict__(self) -> dict[str, Any]:
            fields = present(self)
            pending = fields.get(PENDING)
            if pending is None:
                return fields
            fields, given = pending[0](fields, pending)
            fill(self, fields, given)
            return fields

        @__dict__.setter
        def __dict__(self, fields: dict[str, Any]) -> None:
            put(self, fields)

        def __getattr__(self, name: str) -> Any:
            if name in _SLOTS and PENDING in present(self):
                self.__dict__  # noqa: B018 - gives it all it is to have
                return object.__getattribute__(self, name)
            return super().__getattr__(name)
