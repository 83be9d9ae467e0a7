"""The commands of each script call in the scenario that calls every script, as MONITOR shows them."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator

import mqredis
from mqredis import Settings
from tests.contract.scenario import everything
from tests.support.server import RedisServer

MANAGER = "spy"
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')


def script_calls(server: RedisServer) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Run the scenario. Yields the words of each script call, and those of the commands that its script ran."""
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.settimeout(30)
        monitor.connect(str(server.socket_path))
        monitor.sendall(b"MONITOR\r\n")
        lines = monitor.makefile("r", encoding="latin-1", newline="\r\n")
        assert lines.readline() == "+OK\r\n"
        scan = threading.Thread(target=_scan, args=(server,))
        scan.start()
        call: list[str] = []
        commands: list[list[str]] = []
        for line in lines:
            words = _WORD.findall(line)
            if " lua] " in line:
                commands.append(words)
                continue
            if call:
                yield call, commands
            call, commands = words if words[0].upper() in ("EVALSHA", "FCALL") else [], []
            if words[:2] == ["ECHO", "the end"]:
                break
        scan.join(30)


def _scan(server: RedisServer) -> None:
    with server.client() as raw:
        try:
            with mqredis.connect(server.url, manager=MANAGER, settings=Settings(test_clock=True)) as qm:
                everything(qm, raw)
        finally:
            raw.execute_command("ECHO", "the end")
