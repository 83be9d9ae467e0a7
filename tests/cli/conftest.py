"""Fixtures that run the command line in this process or in one of its own."""

from __future__ import annotations

import io
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from mqredis.cli import main
from tests.support.server import RedisServer

_numbers = itertools.count(1)


@dataclass
class Result:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        """The JSON lines of its output."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Result]


@pytest.fixture
def manager() -> str:
    return f"cli-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def run(
    url: str, manager: str, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """Return a function that runs a command in this process and asserts its exit code.

    Example: ``run("send", "orders", stdin="...", code=0)``. At the end the doctor must find nothing.
    """
    monkeypatch.setenv("MQREDIS_URL", url)
    monkeypatch.setenv("MQREDIS_MANAGER", manager)

    def call(*arguments: str, stdin: str | bytes = "", code: int = 0) -> Result:
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        try:
            ended = main(arguments)
        except SystemExit as stop:  # argparse
            ended = int(stop.code or 0)
        out, err = capsysbinary.readouterr()
        result = Result(ended, out.decode(), err.decode())
        assert result.code == code, result
        return result

    yield call
    result = call("doctor", "--json")
    assert result.rows[0]["findings"] == []


@pytest.fixture
def start(redis_server: Any, manager: str) -> Callable[..., subprocess.Popen[str]]:
    """Return a function that starts a command as a process on the real server."""

    def begin(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "mqredis", *arguments],
            env={**os.environ, "MQREDIS_URL": redis_server.url, "MQREDIS_MANAGER": manager, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return begin


@pytest.fixture
def server(start_server: Callable[..., RedisServer]) -> RedisServer:
    return start_server(tcp=True)
