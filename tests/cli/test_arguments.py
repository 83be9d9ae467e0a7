"""Invalid arguments and input lines are refused before anything is done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mqredis.cli import main
from mqredis.cli.exits import Exit
from tests.cli.conftest import Run


def test_import_refuses_a_line_without_a_body(run: Run) -> None:
    run("queue", "create", "orders")
    told = run("import", "orders", stdin='{"a": 1}\n', code=Exit.USAGE).err
    assert (
        told
        == "mqredis: line 1: it has neither body nor body_base64, so export did not write it; nothing was sent\n"
    )
    assert run("browse", "orders", "--json").rows == []
    assert run("import", "orders", stdin='{"body": ""}\n{"body_base64": ""}\n').out == "sent 2 messages\n"


@pytest.mark.parametrize("seconds", ["-1", "nan", "soon"])
@pytest.mark.parametrize("words", ["receive orders", "peek orders", "request orders x"])
def test_invalid_timeout_is_a_usage_error(run: Run, words: str, seconds: str) -> None:
    run("queue", "create", "orders")
    assert "--timeout" in run(*words.split(), "--timeout", seconds, code=Exit.USAGE).err
    assert run("browse", "orders", "--json").rows == []


@pytest.mark.parametrize(
    "words", ["browse orders --limit", "import orders --skip", "redrive --limit", "receive orders --count"]
)
def test_number_that_no_machine_can_count_to_is_a_usage_error(run: Run, words: str) -> None:
    run("queue", "create", "orders")
    assert "is too large" in run(*words.split(), "9" * 23, code=Exit.USAGE).err


@pytest.mark.parametrize("words", ["send orders --file", "import orders --file", "export orders --file"])
def test_file_that_cannot_be_opened_is_a_usage_error(run: Run, tmp_path: Path, words: str) -> None:
    run("queue", "create", "orders")
    for path in (tmp_path, tmp_path / "none" / "x"):
        assert str(path) in run(*words.split(), str(path), code=Exit.USAGE).err


@pytest.mark.parametrize("seconds", ["-1", "nan"])
def test_invalid_time_for_the_end_of_a_worker_is_a_usage_error(run: Run, seconds: str) -> None:
    assert "--shutdown" in run("worker", "app:worker", "--shutdown", seconds, code=Exit.USAGE).err


@pytest.mark.parametrize("number", ["-1", "x"])
def test_acl_refuses_a_database_that_cannot_be(run: Run, number: str) -> None:
    assert "--database" in run("acl", "--database", number, code=Exit.USAGE).err


@pytest.mark.parametrize("name", ["console", "exporter"])
@pytest.mark.parametrize("port", ["80000", "-1", "http"])
def test_invalid_port_is_a_usage_error(run: Run, name: str, port: str) -> None:
    assert "--port" in run(name, "--port", port, code=Exit.USAGE).err


@pytest.mark.parametrize(
    "words", ["--json frob", "receive orders --count -1 --json", "--json receive orders --count -1", "--json"]
)
def test_usage_error_is_a_line_of_json_if_json_was_asked_for(run: Run, words: str) -> None:
    error = json.loads(run(*words.split(), code=Exit.USAGE).err)
    assert (error["error"], error["status"]) == ("InvalidArgument", None)
    assert run(*words.replace("--json", "").split(), code=Exit.USAGE).err.startswith("usage: mqredis")


@pytest.mark.parametrize("text", ["soon", "0001-01-01"])
@pytest.mark.parametrize("words", ["reschedule orders --all --at", "show scheduled orders --since"])
def test_invalid_time_is_a_usage_error(run: Run, words: str, text: str) -> None:
    told = run(*words.split(), text, code=Exit.USAGE).err
    assert f"{text!r} is not a time such as 2026-12-01T08:00:00" in told


def test_private_server_is_named_at_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MQREDIS_URL", raising=False)
    monkeypatch.setenv("MQREDIS_DIR", str(tmp_path / "data"))
    assert main(["queue", "create", "orders"]) == 0
    out, err = capsys.readouterr()
    assert out == "queue orders was created\n"
    assert err.startswith("mqredis: neither --url nor MQREDIS_URL is given: private ")
    assert f"{tmp_path / 'data'} at " in err
    assert err.count("\n") == 1
    assert main(["queue", "list", "--json"]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("MQREDIS_URL", f"embedded://{tmp_path / 'data'}")
    assert main(["queue", "list"]) == 0
    assert capsys.readouterr().err == ""
