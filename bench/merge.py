"""Parts of a run that were measured anew, put into the figures of an earlier one."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def merge(old: Document, new: Document, parts: list[str]) -> Document:
    """The figures of ``old`` with those that ``new`` has of these parts, and a note that they were made later.

    Ratios are taken within a round, so what is measured anew replaces all that stood in its place. A part that failed
    leaves there what there was.
    """
    sections = {_section(row) for row in new["rows"]}
    company = dict(old["company"])
    for kind, rows in new["company"].items():
        axes = {row.get("axis") for row in rows}
        kept = (row for row in company.get(kind, []) if row.get("axis") not in axes)
        company[kind] = [*kept, *rows]
    failed = {part: why for part, why in old["failed"].items() if part not in parts}
    made = {"made": new["made"], "parts": parts, "seconds": new["seconds"], "machine": new["machine"]}
    return {
        **old,
        "rows": [*(row for row in old["rows"] if _section(row) not in sections), *new["rows"]],
        "company": company,
        "peers": {**old["peers"], **new["peers"]},
        "versions": {**old["versions"], **new["versions"]},
        "failed": {**failed, **new["failed"]},
        "later": [*_still(old.get("later", []), parts), made],
    }


def _section(row: dict[str, Any]) -> tuple[str, str]:
    return row["section"], row["place"]


def _still(later: list[dict[str, Any]], parts: list[str]) -> list[dict[str, Any]]:
    """What was made later and has not been made anew since."""
    left = [{**one, "parts": [part for part in one["parts"] if part not in parts]} for one in later]
    return [one for one in left if one["parts"]]
