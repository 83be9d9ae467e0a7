"""Check: a server with arbitrary replies."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

import mqredis
from mqredis import MqError, Settings
from mqredis.drivers.core import Core
from mqredis.steps import Payload
from tests.reliability.check import Run, check
from tests.reliability.public import STORIES, Stage
from tests.support.server import RedisServer

SETTINGS = Settings(allow_volatile=True, retry_seconds=0, wake="poll")
ODD: tuple[Any, ...] = (
    b"", b"-1", b"\xff\xfe", b"9" * 5000, b"nan", b"\0", b",", b"0" * 16, b"f" * 15, b"1 2 3",
    0, -1, 1 << 62, None, [], [b"x", None], 1.5, True,
)  # fmt: skip
# Calls on one stage before the next one, since many a call ends what it was made on.
LAP = 20


def spoil(rng: random.Random, payload: Payload) -> Payload:
    """Return a reply as a broken or hostile server may give it."""
    spoilt: list[Any] = list(payload)
    at = rng.randrange(len(spoilt) + 1)
    item = rng.choice(ODD)
    match rng.randrange(4):
        case 0:
            del spoilt[at:]
        case 1:
            spoilt.insert(at, item)
        case 2 if at < len(spoilt):
            spoilt[at] = item
        case 3 if at < len(spoilt) and isinstance(spoilt[at], bytes) and spoilt[at]:
            byte = rng.randrange(len(spoilt[at]))
            spoilt[at] = spoilt[at][:byte] + rng.randbytes(1) + spoilt[at][byte + rng.randrange(2) :]
        case _:
            spoilt = [item] * at
    return spoilt


@check("hostile replies", "whatever a server answers: a call returns or raises one of our errors")
def replies(run: Run) -> None:
    """Every public call, with answers that are cut, longer, of other types or changed in a byte.

    What becomes of the store is not checked: who believes lies asks for odd things.
    """
    laps, rng, accept = run.size(300, 1), run.rng("replies"), Core.accept
    spoilt: list[Payload] = []

    def lie(core: Core, *arguments: Any) -> tuple[int, Payload]:
        status, payload = accept(core, *arguments)
        if rng.random() < 0.7:
            payload = spoil(rng, payload)
            spoilt[:] = [payload]
            run.add("answers spoilt")
        return status, payload

    with RedisServer() as server, mqredis.connect(server.url, settings=SETTINGS) as qm:
        for lap in range(laps):
            for name, story in STORIES.items():
                stage = Stage(qm, f"{name}{lap}")
                stage.prepare()
                with patch.object(Core, "accept", lie):
                    for _ in range(LAP):
                        try:
                            str(story(stage))
                            run.add("calls that returned")
                        except MqError as error:
                            run.add(type(error).__name__)
                        except Exception as error:
                            raise AssertionError(f"{name}: {error!r} of {str(spoilt)[:500]}") from error
                for queue in ("", "-t", "-n"):
                    if qm.queues(stage.name + queue):
                        qm.delete_queue(stage.name + queue)
