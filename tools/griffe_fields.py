"""Extension of griffe for the API reference: defaults and meanings of keyword arguments that a TypedDict declares.

mkdocs.yml loads it (``make docs``), behind the extension whose output it changes.
``unpack_typeddict`` shows such arguments (the fields of a message in ``send``, the properties of a queue in
``create_queue``) with the default ``...`` and without a text. The model that has the fields knows both.
"""

from __future__ import annotations

from typing import Any

import griffe

MESSAGE = ("mqredis.models.header.Header", "mqredis.models.outgoing.Outgoing")
QUEUE = ("mqredis.models.queue.QueueProperties",)


class Fields(griffe.Extension):
    """Copies the default and the docstring of a field to the arguments with its name."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Complete the signature, and the list of parameters below it, after ``unpack_typeddict`` has made them."""
        added = {parameter.name: parameter for parameter in func.parameters if parameter.default == "..."}
        if not added or func.package.name != "mqredis":
            return
        models = QUEUE if "transactional" in added else MESSAGE
        fields = {
            name: field for path in models for name, field in func.modules_collection[path].attributes.items()
        }
        # A property that an update does not name stays as it is.
        defaults = (
            {}
            if func.name == "update_queue"
            else {name: _default(fields[name]) for name in added.keys() & fields}
        )
        for name, default in defaults.items():
            added[name].default = default
        for section in func.docstring.parsed if func.docstring else []:
            if section.kind is griffe.DocstringSectionKind.parameters:
                for told in section.value:
                    field = fields.get(told.name)
                    if told.name in added and field is not None:
                        told.value = defaults.get(told.name, told.value)
                        told.description = field.docstring.value if field.docstring else ""


def _default(field: griffe.Attribute) -> str:
    """The default of a field; that of a pydantic ``Field`` is its argument ``default``."""
    value: Any = field.value
    if isinstance(value, griffe.ExprCall):
        named = {part.name: part.value for part in value.arguments if isinstance(part, griffe.ExprKeyword)}
        value = named.get("default", value)
    return str(value)
