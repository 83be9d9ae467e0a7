"""A proxy that loses requests or replies on purpose."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections import deque
from pathlib import Path
from typing import Self


class Proxy:
    """Listens on a TCP port and forwards to the unix socket of a server.

    ``faults``: one word for each of the next script calls. "pass": forwarded; "request": the request and its
    connection are lost; "reply": the call is executed, its reply and the connection are lost; "silence": the call
    is executed, nothing more is sent to the client, but the connection stays open.
    """

    def __init__(self, target: Path) -> None:
        self._target = str(target)
        self.faults: deque[str] = deque()
        self.calls = 0
        self.accepting = True
        self._frozen = 0
        self._served = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Address of the proxy."""
        return f"redis://127.0.0.1:{self.port}/0"

    def freeze(self) -> None:
        """Forward nothing more on the connections that are open now, but leave them open."""
        self._frozen = self._served

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.accepting:
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()
            else:
                client.close()

    def _serve(self, client: socket.socket) -> None:
        self._served += 1
        number = self._served
        with client, socket.socket(socket.AF_UNIX) as server, selectors.DefaultSelector() as both:
            server.connect(self._target)
            both.register(client, selectors.EVENT_READ, server)
            both.register(server, selectors.EVENT_READ, client)
            fault = "pass"
            with contextlib.suppress(OSError):
                while not self._closed:
                    for key, _ in both.select(0.2):
                        data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                        if not data:
                            return
                        if number <= self._frozen:
                            continue
                        if key.fileobj is client and (b"EVALSHA" in data or b"\r\nFCALL" in data):
                            self.calls += 1
                            fault = self.faults.popleft() if self.faults else "pass"
                            if fault == "request":
                                return
                        elif key.fileobj is server and fault != "pass":
                            if fault == "reply":
                                return
                            continue
                        key.data.sendall(data)
