"""What is in two places: options and columns of docs/spark.md, fields for writers, places of kill tests, a letter and a
time that Lua knows. The tutorial runs."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

import mqredis
from mqredis.models.fields import FIELDS
from mqredis.spark import columns, headers, options, rows, schema, unavailable
from tests.contract.test_stored_texts import expiring, module
from tests.spark.kills import PLACES
from tests.support.server import RedisServer

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
TUTORIAL = ROOT / "docs" / "learn" / "spark.md"


def named(text: str) -> list[str]:
    """The words that a text shows as code."""
    return re.findall(r"`(\w+)`", text)


def first_cells(heading: str) -> list[str]:
    """The words in the first cells of the table below a heading."""
    table = PAGE.partition(f"\n## {heading}\n")[2].partition("\n| ")[2].partition("\n\n")[0]
    return [name for row in table.splitlines()[2:] for name in named(row.split("|")[1])]


def test_page_has_each_option() -> None:
    documented = first_cells("Options")
    assert set(documented) == {field.name for field in options.NAMES.values()}
    # Reading, writing.
    assert [name for name in documented if documented.count(name) > 1] == [
        "queue",
        "queue",
    ]


def test_page_has_the_default_of_each_option() -> None:
    table = PAGE.partition("\n## Options\n")[2].partition("\n\n")[2].partition("\n\n")[0]
    for row in table.splitlines()[2:]:
        cells = row.split("|")
        for name in named(cells[1]):
            default = getattr(options.Options, name)
            if default not in ("", 0, -1) or default is False:  # these say that the option was not given
                text = str(default).lower() if isinstance(default, str | bool) else f"{default:,}"
                assert text in cells[3], name


def test_page_has_each_column_that_is_read() -> None:
    assert sorted(first_cells("Columns")) == sorted(schema.FIELDS)


def test_page_has_each_column_that_is_written() -> None:
    sentence = PAGE.partition("\nA writer takes ")[2].partition(" Any other column")[0]
    documented = re.sub(r"\([^)]*\)", "", sentence)
    assert sorted(named(documented)) == sorted(rows.COLUMNS)


def test_writer_takes_every_field_of_a_message() -> None:
    taken = rows.COLUMNS.keys() | headers.SYSTEM
    assert taken - {"body", "queue", "headers", "system_headers"} == FIELDS.keys()


def test_the_driver_is_killed_at_each_kill_point() -> None:
    code = "".join(path.read_text() for path in (ROOT / "mqredis" / "spark").glob("*.py"))
    assert sorted(re.findall(r'kill_point\("([a-z-]+)"\)', code)) == sorted(PLACES["both"])
    assert f" at {len(PLACES['both'])} named places " in PAGE


def test_timer_of_a_delay_has_the_letter_of_the_scripts() -> None:
    assert module("core/timers").letters.delay.encode() == unavailable._DELAY


def test_time_at_which_a_message_expires_is_that_of_the_scripts() -> None:
    record = module("core/record", encoding=None)
    for stored, expires in expiring(random.Random(1)):
        told = record.expires(stored) if record.is_special(stored) else None
        assert told == columns.expires_ms(stored) == expires


@pytest.mark.usefixtures("spark")
def test_programs_of_the_tutorial_run(redis_server: RedisServer, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```{ \.python }\n(.*?)```", TUTORIAL.read_text(), re.DOTALL):
        block = block.replace("redis://localhost:6379/0", redis_server.url)
        exec(block.replace("checkpoints/numbers", str(tmp_path)), names)  # noqa: S102 - the page is ours
    assert sum(batch["numInputRows"] for batch in names["query"].recentProgress) == 1000
    with mqredis.connect(redis_server.url) as qm:
        assert qm.delete_queue("numbers") == 0
