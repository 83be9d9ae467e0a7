"""What stands between a primary and its replica, and between clients and Sentinel, in tests of promotions.

The proxy (tests/support/proxy.py) reads frames of the protocol; a replication link carries a snapshot and a raw stream,
so here bytes are bytes.
"""

from __future__ import annotations

import contextlib
import socket
import threading


def _listen() -> socket.socket:
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(None)
    return server


class Relay:
    """Passes bytes on to a port of this machine, until it is told to freeze after so many more of the upstream's."""

    def __init__(self) -> None:
        self._server = _listen()
        self.port: int = self._server.getsockname()[1]
        # Port of the server behind it.
        self.upstream = 0
        self._lock = threading.Lock()
        self._budget: int | None = None
        self._sockets: set[socket.socket] = set()
        self._flowing = threading.Event()
        self._flowing.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self, after: int) -> None:
        """From now on ``after`` more bytes come through from the upstream, on all connections together."""
        with self._lock:
            self._budget = after

    def hold(self) -> None:
        """Be slow: what comes from the upstream waits for ``flow``."""
        self._flowing.clear()

    def flow(self) -> None:
        """Go on where ``hold`` stopped."""
        self._flowing.set()

    def thaw(self) -> None:
        """Cut every connection; new ones pass everything."""
        with self._lock:
            sockets, self._sockets, self._budget = self._sockets, set(), None
        self._flowing.set()
        for each in sockets:
            _shut(each)

    def close(self) -> None:
        """Cut everything."""
        _shut(self._server)
        self.thaw()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                try:
                    upstream = socket.create_connection(("127.0.0.1", self.upstream))
                except OSError:
                    _shut(client)
                    continue
                with self._lock:
                    self._sockets |= {client, upstream}
                for source, target, counted in ((client, upstream, False), (upstream, client, True)):
                    threading.Thread(target=self._pump, args=(source, target, counted), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                passed = self._admit(data) if counted else data
                target.sendall(passed)
                if passed != data:  # nothing may follow a gap, even when the others thaw
                    while source.recv(65536):
                        pass
        _shut(source)
        _shut(target)

    def _admit(self, data: bytes) -> bytes:
        """The part of the data that may pass."""
        self._flowing.wait()
        with self._lock:
            if self._budget is not None:
                data = data[: self._budget]
                self._budget -= len(data)
        return data


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


class FakeSentinel:
    """Answers what clients ask a Sentinel: where the primary is. Who that is the test decides, at once."""

    def __init__(self) -> None:
        self._server = _listen()
        self.port: int = self._server.getsockname()[1]
        # Port of the primary.
        self.primary = 0
        # The epoch of what it knows; None: it refuses to tell.
        self.epoch: int | None = 1
        # It accepts connections and does not answer.
        self.silent = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        _shut(self._server)

    def __enter__(self) -> FakeSentinel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, client.makefile("rb") as lines:
            while head := lines.readline():
                args = []
                for _ in range(int(head[1:])):
                    size = int(lines.readline()[1:])
                    args.append(lines.read(size + 2)[:-2].upper())
                if self.silent:
                    continue
                if args[:2] == [b"SENTINEL", b"MASTER"]:
                    client.sendall(self._master())
                elif args[:1] == [b"SENTINEL"]:
                    client.sendall(_texts("127.0.0.1", str(self.primary)))
                else:
                    client.sendall(b"+OK\r\n")

    def _master(self) -> bytes:
        if self.epoch is None:
            return b"-NOPERM this user has no permissions to run the 'sentinel|master' command\r\n"
        return _texts("name", "shop", "config-epoch", str(self.epoch))


def _texts(*texts: str) -> bytes:
    """A reply that is a list of texts."""
    rows = [b"$%d\r\n%b\r\n" % (len(text), text.encode()) for text in texts]
    return b"*%d\r\n" % len(rows) + b"".join(rows)
