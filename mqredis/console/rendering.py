"""Makes pages from the templates of the package, and knows the colours that a visitor has chosen.

``visit``, ``failure`` and ``pages.entry``, which stores the choice, use it. The cookie of the colours has one name in
all consoles, unlike the signed one (``security``).
"""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request

from mqredis.console import formats

# The colours that a visitor can choose (static/console.css; templates/base.html has the buttons), and the cookie that
# remembers them.
THEMES, THEME_COOKIE = ("light", "dark"), "mqredis_theme"


def theme_of(request: Request) -> str:
    """The colours that the visitor has chosen; "": those of the system."""
    theme = request.cookies.get(THEME_COOKIE, "")
    return theme if theme in THEMES else ""


def _environment() -> Environment:
    """Templates of the package. Every value is escaped, and a name that a template misspells is an error."""
    environment = Environment(
        loader=PackageLoader("mqredis.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=formats.visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(formats.FILTERS)
    return environment


TEMPLATES = _environment()
