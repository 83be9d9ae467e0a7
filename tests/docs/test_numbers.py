"""Numbers that pages repeat are those of the code."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from mqredis import console
from mqredis.cli import messages as cli_messages
from mqredis.cli import operator, show
from mqredis.cli.app import build
from mqredis.commands.send import BATCH
from mqredis.console import attempts, bodies, charts, security, shared
from mqredis.console.actions import messages as actions
from mqredis.console.application import MIN_TOKEN
from mqredis.console.pages import find, messages
from mqredis.models import Outgoing, RetryPolicy
from mqredis.models.properties import MAX_PROPERTIES
from mqredis.models.queue import LARGEST_MESSAGE, MESSAGE_BYTES
from mqredis.models.text import MAX_IDENTIFIER_BYTES
from mqredis.operations.send import CALL_BYTES
from mqredis.prometheus import Exporter
from mqredis.settings import Settings
from mqredis.worker import Retry
from tests.contract.test_stored_texts import module

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = "mqredis/console/templates"
CONSOLE = build().parse_args(["console"])
WORDS = {2.0: "two", 5: "five", 6.0: "six"}
PAGE = "docs/console.md"
KIB = bodies.PAGE_BYTES >> 10
DEFAULTS = Settings()
LEASE, ATTEMPTS = f"{DEFAULTS.lease_seconds:g}", WORDS[Retry().attempts or 0]
CALL = f"{BATCH} messages or {CALL_BYTES >> 20} MiB"
OPERATIONS, TRAIL = f"{module('transactions/tx').most:,}", module("features/trail_store")

NUMBERS = [
    (PAGE, f"http://{CONSOLE.host}:{CONSOLE.port}/"),
    (PAGE, f"about {find.CALLS} calls on a page"),
    (PAGE, f"makes {messages.CALLS} calls to the broker at a time"),
    (PAGE, f"in each {charts.SPANS['hour'].step // 60} minutes of the last hour"),
    (PAGE, f"in each {charts.SPANS['day'].step // 60} minutes of the last day"),
    (PAGE, f"The token has at least {MIN_TOKEN} characters"),
    (PAGE, f"keeps it for {security.COOKIE_SECONDS // 3600} hours"),
    (PAGE, f"After {WORDS[attempts.WRONG]} wrong tokens"),
    (PAGE, f"Forms are limited to {security.MAX_FORM_BYTES >> 20} MiB, bodies on a page to {KIB} KiB"),
    (PAGE, f"reads the state for all viewers, every {WORDS[CONSOLE.interval]} seconds"),
    (PAGE, f"pages that are updated every {WORDS[shared.SLOWER * CONSOLE.interval]} seconds"),
    (f"{TEMPLATES}/message.html", f"Only the first {KIB} KiB are shown"),
    (f"{TEMPLATES}/macros.html", f'viewBox="0 0 {charts.WIDTH} {charts.HEIGHT}"'),
    ("docs/cli.md", f"`show` up to {show.MOST:,}. If there are more"),
    ("docs/cli.md", f"`import` sends batches of up to {BATCH} messages"),
    *(
        ("docs/cli.md", f"`browse` and `actions` show up to {most} rows")
        for most in (cli_messages.MOST_BROWSED, operator.MOST_ACTIONS)
    ),
    ("README.md", f"delivered again when the lease ({LEASE} s) ends"),
    ("README.md", f"polls again after at most {WORDS[DEFAULTS.recheck_seconds]} seconds"),
    ("README.md", f"up to {LARGEST_MESSAGE >> 20} MiB ({MESSAGE_BYTES >> 20} MiB by default)"),
    ("README.md", f"{MAX_PROPERTIES} properties and ids of {MAX_IDENTIFIER_BYTES} bytes"),
    ("README.md", f"up to {OPERATIONS} operations. `send_many` makes a call for each {CALL}"),
    ("docs/guarantees.md", f"outside a transaction make a call for each {CALL}"),
    ("mqredis/asyncio/queue.py", f"in batches of up to {CALL}"),
    ("docs/learn/first-queue.md", f"repeated for `retry_seconds` ({DEFAULTS.retry_seconds:g})"),
    ("docs/learn/first-queue.md", f"the *lease* of the lock ({LEASE} seconds)"),
    ("docs/learn/transactions.md", f"(`lease_seconds`, {LEASE} by default)"),
    ("docs/learn/transactions.md", f"up to {OPERATIONS} operations"),
    ("docs/learn/worker.md", f"A message that has failed {ATTEMPTS} times"),
    ("docs/guides/backpressure.md", f"after {ATTEMPTS} attempts its own message is in `;poison`"),
    (
        "docs/guides/fair-processing.md",
        f"(immediate=4) # {WORDS[RetryPolicy(immediate=4).attempts]} attempts",
    ),
    ("docs/guides/poison-messages.md", f"messages ({DEFAULTS.failed_messages_warning})"),
    ("docs/guides/priorities.md", f"{Outgoing().priority} is the default"),
    ("docs/guides/why-a-message-failed.md", f"at most {TRAIL.entries} entries and {TRAIL.bytes} bytes"),
    ("docs/guides/why-a-message-failed.md", f"the last {TRAIL.kept} trails are kept"),
    ("docs/coming-from.md", f"(batches of {BATCH} or {CALL_BYTES >> 20} MiB, each all or nothing)"),
    ("docs/coming-from.md", f"{LARGEST_MESSAGE >> 20} MiB, {MAX_PROPERTIES} properties"),
]


@pytest.mark.parametrize("path, text", NUMBERS)
def test_page_has_the_number_of_the_code(path: str, text: str) -> None:
    assert text in " ".join((ROOT / path).read_text().split())


def default(call: Callable[..., Any], name: str) -> Any:
    return signature(call).parameters[name].default


def test_options_have_the_defaults_of_calls() -> None:
    exporter = build().parse_args(["exporter"])
    assert CONSOLE.interval == default(console.app, "interval")
    assert (exporter.host, exporter.port) == (default(Exporter, "host"), default(Exporter, "port"))


def test_texts_say_a_minute_and_a_day() -> None:
    """Forms and docs/console.md say so."""
    assert (attempts.PAUSE, actions.TRASH) == (60.0, 86_400.0)
