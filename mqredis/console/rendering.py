"""Makes pages from the templates of the package.

``visit`` and ``failure`` use it.
"""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from mqredis.console import formats


def _environment() -> Environment:
    """Templates of the package. Every value is escaped, and a name that a template misspells is an error."""
    made = Environment(
        loader=PackageLoader("mqredis.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=formats.visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(formats.FILTERS)
    return made


TEMPLATES = _environment()
