"""Types of options that several commands have, and the options that choose messages.

``messages``, ``operator``, ``show``, ``queues``, ``transfer``, ``admin``, ``topics``, ``console`` and ``work`` use it.
``match_options``, ``chosen`` and ``asked`` belong together: an option that only one of them knows is accepted and does
nothing, or is missing in the log of actions. docs/cli.md lists the commands that have the match options.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from datetime import datetime
from typing import Any

from mqredis.models import Match
from mqredis.models.text import identifier_of

# Identifiers of messages that ``Match`` and ``Outgoing`` have, both under this name: they are options of reads, and in
# ``messages.message_options`` of ``send`` and ``schedules create``.
IDS = ("message_id", "correlation_id", "group_id")


def match_options(parser: argparse.ArgumentParser) -> None:
    """Options that choose messages."""
    group = parser.add_argument_group("which messages")
    for name in IDS:
        what = name.replace("_", " ")
        group.add_argument(
            f"--{name.replace('_', '-')}", metavar="ID", help=f"only this {what}; 0x... gives bytes in hex"
        )
    group.add_argument(
        "--selector", metavar="TEXT", help="only messages for which this is true: region = 'EU'"
    )


def chosen(arguments: argparse.Namespace) -> dict[str, Any]:
    """``match=`` and ``selector=`` of a read, from the options; nothing if none was given."""
    ids: dict[str, Any] = {
        name: identifier_of(getattr(arguments, name)) for name in IDS if getattr(arguments, name, None)
    }
    how: dict[str, Any] = {"match": Match(**ids)} if ids else {}
    if arguments.selector:
        how["selector"] = arguments.selector
    return how


def asked(arguments: argparse.Namespace) -> dict[str, Any]:
    """The values of ``match_options``, for the log of actions."""
    return {name: getattr(arguments, name) for name in (*IDS, "selector") if getattr(arguments, name)}


def lookup_id(text: str) -> int:
    """A lookup id from an option: decimal, or hex with 0x in front (as all commands print it)."""
    try:
        value = int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a lookup id") from None
    if not 0 <= value < 1 << 64:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a lookup id")
    return value


def limit_option(parser: argparse.ArgumentParser, most: int) -> None:
    """``--limit``, for ``Output.first``; without it ``most`` rows are shown."""
    parser.add_argument(
        "--limit", type=amount, metavar="NUMBER", help=f"rows at most; 0: all (default: {most})"
    )


def amount(text: str) -> int:
    """How many, from an option: 0 or more, and no more than Python counts to."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a whole number") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is less than 0")
    if value > sys.maxsize:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is too large")
    return value


def port(text: str) -> int:
    """A port from an option: 0 to 65535; 0 is any free one."""
    value = amount(text)
    if value > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a port: ports go from 0 to 65535")
    return value


def wait_seconds(text: str) -> float:
    """The longest time to wait, from an option: 0 or more seconds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a time of 0 or more seconds")
    return value


def moment(text: str) -> datetime:
    """A time from an option; without an offset it is that of this machine."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a time such as 2026-12-01T08:00:00") from None


def number(text: str) -> int | float | str:
    """A number from an option, or "none" for no limit."""
    if text.lower() == "none":
        return "none"
    try:
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is neither a number nor 'none'") from None
