"""Escape sequences in bodies, labels and names are escaped before they reach a terminal."""

from __future__ import annotations

import json
import logging
import re
import time

import pytest

import mqredis
from mqredis.cli import main, terminal
from tests.cli.conftest import Run

# Clears the screen, sets the title, and begins a sequence with the one-byte form; the last one turns text around.
HOSTILE = "\x1b[2J\x1b]0;gone\x07 \x9b31m \r \x7f \u202e \u061c"
_CONTROL = re.compile("(?!\n)[\x00-\x1f\x7f-\x9f\u202e\u061c]")


@pytest.fixture
def hostile(run: Run, url: str, manager: str) -> str:
    """A queue whose label, message body, message label, ids and properties hold escape sequences. Queue
    names may not contain ESC, so the name has the 8-bit CSI character."""
    name = "jobs\x9b31m\u202e"
    with mqredis.connect(url, manager=manager) as qm:
        qm.create_queue(name, label=f"label{HOSTILE}")
        with qm.open(name) as queue:
            queue.send(
                f"body{HOSTILE}",
                label=f"label{HOSTILE}",
                message_id=f"id{HOSTILE}",
                properties={"p": f"value{HOSTILE}"},
            )
    return name


@pytest.mark.parametrize("json_lines", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        ("peek",), ("browse",), ("queue", "info"), ("stats",), ("export",), ("send", "!", "x"), ("receive",),
        ("queue", "purge"), ("queue", "set", "!", "--quota-messages", "9"), ("queue", "delete", "!", "--yes"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_output_about_a_queue_has_no_control_characters(
    run: Run, hostile: str, words: tuple[str, ...], json_lines: bool
) -> None:
    arguments = [hostile if word == "!" else word for word in words]
    if "!" not in words:
        arguments.append(hostile)
    found = run(*arguments, *(["--json"] if json_lines else []))
    assert found.out
    assert _CONTROL.search(found.out + found.err) is None
    if json_lines and words == ("peek",):
        assert json.loads(found.out)["body"] == f"body{HOSTILE}"  # escaped, not changed


@pytest.mark.parametrize("json_lines", [False, True])
@pytest.mark.parametrize(
    "words",
    [("queue", "list"), ("queue", "list", "--names"), ("stats",), ("top", "--count", "1"), ("doctor",)],
    ids=" ".join,
)
def test_output_about_all_queues_has_no_control_characters(
    run: Run, hostile: str, words: tuple[str, ...], json_lines: bool
) -> None:
    found = run(*words, *(["--json"] if json_lines else []))
    assert found.out
    if words[0] != "doctor":
        assert "jobs" in found.out
    assert _CONTROL.search(found.out + found.err) is None


@pytest.mark.parametrize("json_lines", [False, True])
def test_error_output_has_no_control_characters(run: Run, json_lines: bool) -> None:
    found = run("peek", "missing\x9b31m\u202e", *(["--json"] if json_lines else []), code=1)
    assert "missing" in found.err
    assert _CONTROL.search(found.err) is None


def test_log_output_has_no_control_characters(
    run: Run, hostile: str, caplog: pytest.LogCaptureFixture
) -> None:
    record = logging.LogRecord("mqredis.worker", logging.ERROR, "", 1, "failed: %s", (HOSTILE,), None)
    assert _CONTROL.search(terminal.Formatter("%(message)s").format(record)) is None


def test_log_times_are_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        record = logging.makeLogRecord({"created": 1_750_000_000.25, "msg": "started"})
        told = terminal.Formatter("%(asctime)s %(message)s").format(record)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert told == "2025-06-15 15:06:40.250Z started"


def test_text_without_control_characters_is_unchanged(run: Run) -> None:
    text = "Zoë\t日本 👩‍👩‍👧\r\nsecond line\n"
    assert terminal.lines(text) == text
    run("queue", "create", "q")
    run("send", "q", text)
    assert run("peek", "q").out == text + "\n"


def test_raw_output_is_the_unchanged_body(run: Run, hostile: str) -> None:
    assert run("peek", hostile, "--raw").out == f"body{HOSTILE}"


def test_command_line_logging_escapes_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    main(["completion", "bash"])
    logging.getLogger("mqredis.worker").error("failed: %s", HOSTILE)
    assert "failed: " in (err := capsys.readouterr().err)
    assert _CONTROL.search(err) is None
