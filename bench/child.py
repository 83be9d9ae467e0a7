"""One Python peer in a process of its own: reads orders from stdin and writes answers to stdout, JSON in lines.

``python -m bench.child MODULE CLASS URL SHAPE SIZE``. An order is ``{"work": NAME, "cores": [...], ...}`` with the
arguments of the peer's method; ``open`` and ``close`` are works too. The answer has the time of the call on the clock
of ``time.monotonic``, the seconds and the processor time that it took, and its result as ``times`` if it has one. An
error is answered as ``{"error": TEXT}``. ``runner.Process`` starts it and writes the orders; peers/bullmq.mjs answers
them in the same way.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import traceback
from typing import Any

from bench.peers.base import Peer


def carry_out(peer: Peer, order: dict[str, Any]) -> dict[str, Any]:
    """Call one method of the peer and measure it."""
    work = getattr(peer, order.pop("work"))
    gc.collect()
    begun, cpu, start = time.monotonic(), time.process_time(), time.perf_counter()
    times = work(**order)
    answer = {"begun": begun, "seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    return answer if times is None else {**answer, "times": times}


def main() -> None:
    """Serve orders until stdin ends."""
    module, cls, url, shape, size = sys.argv[1:6]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    peer_class: type[Peer] = getattr(importlib.import_module(f"bench.peers.{module}"), cls)
    peer = peer_class(url, shape, int(size))
    for line in sys.stdin:
        try:
            answer = carry_out(peer, json.loads(line))
        except Exception as error:  # noqa: BLE001 - whatever a peer raises belongs into the report
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
