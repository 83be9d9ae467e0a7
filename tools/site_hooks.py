"""Hooks of the documentation build (``hooks`` in mkdocs.yml): the version in the header, and ``llms.txt``."""

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
