"""Hooks of the documentation build (``hooks`` in mkdocs.yml): the version in the header, names, ``llms.txt``.

mkdocs calls each function by its name. docs/stylesheets/site.css has the rule for the names that are marked.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mqredis


def on_config(config: Any) -> Any:
    """Show the version beside the link to the repository, in the header of each page."""
    config.repo_name = f"mqredis {mqredis.__version__}"
    return config


def on_post_build(config: Any) -> None:
    """Write ``llms.txt``: the title, the address and the first paragraph of each page, for language models."""
    pages = [
        f"- [{page.title}]({page.canonical_url}): {_first_paragraph(page.markdown)}\n"
        for page in config.nav_pages
    ]
    head = f"# {config.site_name}\n\n> {config.site_description}\n\n"
    (Path(config.site_dir) / "llms.txt").write_text(head + "".join(pages))


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001 - mkdocs passes them by name
    """Mark the words of inline code that fit into a narrow line, so that the style sheet keeps them whole."""
    parts = re.split(r"(<pre.*?</pre>)", html, flags=re.DOTALL)
    parts[::2] = [re.sub(r"<code>([^<]*)</code>", _mark_names, part) for part in parts[::2]]
    return "".join(parts)


def _mark_names(code: re.Match[str]) -> str:
    """Inline code with its words of up to 36 characters marked."""
    words = re.sub(r"(?<!\S)\S{2,36}(?!\S)", r'<span class="name">\g<0></span>', code[1])
    return f"<code>{words}</code>"


def on_nav(nav: Any, config: Any, files: Any) -> Any:  # noqa: ARG001 - mkdocs passes them by name
    """Keep the pages in the order of the menu for ``llms.txt``."""
    config.nav_pages = nav.pages
    return nav


def _first_paragraph(markdown: str) -> str:
    """The first paragraph of prose as one line of plain text."""
    for block in re.split(r"\n\s*\n", markdown or ""):
        text = block.strip()
        if text and not text.startswith(("#", "|", "```", "!", ":::", "-", "<")):
            return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(text.split()))
    return ""
