"""Checks: the connection cut at every byte of every public call, on both interfaces; tasks cancelled at any moment."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import mqredis
import mqredis.asyncio
from mqredis import MqError, OutcomeUnknown, Settings
from mqredis.operations.send import Send
from tests.coalescing.kit import turns
from tests.reliability.check import Run, check
from tests.reliability.public import STORIES, Stage
from tests.support.facade import LoopThread, connected
from tests.support.faults import CutReply, CutRequest, Duplicate, Fault
from tests.support.proxy import Proxy
from tests.support.server import RedisServer

FULL = 30_000
# LONG_RETRY repeats a call after each cut. With NO_RETRY the first lost reply is an unknown outcome.
LONG_RETRY = Settings(retry_seconds=20, retry_pause_seconds=0.001, reply_timeout_seconds=10, wake="publish")
NO_RETRY = LONG_RETRY.model_copy(update={"retry_seconds": 0})


class SequenceRunner:
    """Runs sequences of calls on one interface, through the proxy or directly."""

    def __init__(self, server: RedisServer, proxy: Proxy, connect: Callable[..., Any]) -> None:
        self.proxy = proxy
        self._connect = connect
        self.plain = mqredis.connect(server.url, settings=LONG_RETRY)
        self.settings = LONG_RETRY
        self.number = 0
        self.expected: dict[str, tuple[Any, list[Any]]] = {}
        self.qm: Any = None
        self.connect(LONG_RETRY)

    def connect(self, settings: Settings) -> None:
        self.disconnect()
        self.settings = settings
        self.qm = self._connect(self.proxy.url(), settings=settings)

    def disconnect(self) -> None:
        if self.qm is not None:
            self.qm.close()

    def stage(self) -> Stage:
        self.number += 1
        stage = Stage(self.qm, f"q{self.number}")
        stage.prepare()
        return stage

    def clear(self, stage: Stage) -> None:
        for name in (stage.name, stage.name + "-t", stage.name + "-n"):
            try:
                self.plain.delete_queue(name)
            except mqredis.QueueNotFound:
                continue
        # What the stage had open is of no more use; its locks went with the queues.

    def state(self, stage: Stage) -> list[Any]:
        return Stage(self.plain, stage.name).state()

    def measure(self, name: str) -> list[tuple[int, int]]:
        """Run it without a fault. Return its results, the store, and the sizes of requests and replies."""
        warm = self.stage()
        STORIES[name](warm)  # so that its scripts are loaded
        self.clear(warm)
        stage = self.stage()
        self.proxy.log.clear()
        self.proxy.answers.clear()
        answer = STORIES[name](stage)
        sizes = [(len(r.frame), a) for r, a in zip(self.proxy.log, self.proxy.answers, strict=False)]
        self.expected[name] = answer, self.state(stage)
        self.clear(stage)
        return sizes

    def cut(self, name: str, fault: Fault, skip: int) -> None:
        """Run it with one fault; with retries the results and the store must be the same."""
        stage = self.stage()
        before = self.state(stage)
        rule = self.proxy.add(fault, skip=skip)
        try:
            answer = STORIES[name](stage)
            unknown = None
        except OutcomeUnknown as error:
            unknown = error
        except MqError as error:
            if self.settings is LONG_RETRY:
                raise AssertionError(f"{type(error).__name__}: {error}") from error
            unknown = error  # type: ignore[assignment]
        finally:
            self.proxy.clear()
        state = self.state(stage)
        expected = self.expected[name]
        if unknown is None:
            assert (answer, state) == expected, f"answered {answer}, left {state}; must be {expected}"
        elif isinstance(unknown, OutcomeUnknown):
            found = self.qm.resolve(unknown.token)
            assert found.outcome in ("done", "never"), found
            state = self.state(stage)
            whole = len(self.proxy.log) == 0 or found.outcome == "done"
            allowed = [expected[1]] if whole and skip == 0 and name not in SEVERAL else [expected[1], before]
            assert state in allowed or name in SEVERAL, f"{found.outcome}: left {state}, not {allowed}"
        assert rule.hits <= 1
        self.clear(stage)


# Sequences of several calls: after an unknown outcome in the middle the state is neither the first nor the last.
SEVERAL = frozenset({"cursor", "open_and_close", "create_queue", "update_queue", "maintain"})


def _faults(sizes: list[tuple[int, int]]) -> list[tuple[Fault, int]]:
    out: list[tuple[Fault, int]] = []
    for skip, (request, answer) in enumerate(sizes):
        out += [(CutRequest(after=n), skip) for n in range(request)]
        out += [(CutReply(after=n), skip) for n in range(answer)]
        out += [(Duplicate(), skip), (Duplicate(first=True), skip)]
    return out


@check(
    "cuts",
    "the connection cut at any byte of any public call: repeated, resolved or given up, never lost or doubled",
)
def cuts(run: Run) -> None:
    """Cut requests and replies at each byte, sync and asyncio, with and without retries."""
    with (
        RedisServer() as server,
        Proxy(server.socket_path, seed=run.seed) as proxy,
        closing(LoopThread()) as thread,
    ):
        for interface, connect in (("sync", mqredis.connect), ("asyncio", partial(connected, thread))):
            runner = SequenceRunner(server, proxy, connect)
            places = [(name, *item) for name in STORIES for item in _faults(runner.measure(name))]
            run.add("bytes and duplicates there are", len(places))
            rng = run.rng("cuts", interface)
            budget = run.size(FULL, 2 * len(STORIES)) // 2
            chosen = list(places) if len(places) <= budget else rng.sample(places, budget)
            for number, (name, fault, skip) in enumerate(chosen):
                retrying = number // 30 % 3 != 2
                if retrying is not (runner.settings is LONG_RETRY):
                    runner.connect(LONG_RETRY if retrying else NO_RETRY)
                try:
                    runner.cut(name, fault, skip)
                except AssertionError as error:
                    how = "with retries" if runner.settings is LONG_RETRY else "without retries"
                    raise AssertionError(
                        f"{interface}, {how}, {name}, call {skip}, {fault}: {error}"
                    ) from error
                run.add(f"cuts {interface}")
            report = runner.plain.doctor()
            assert report.healthy, report.findings[:3]
            runner.disconnect()
            runner.plain.close()
        run.counts["public calls"] = len(STORIES)


# ---- cancellation --------------------------------------------------------------------------------


async def _cancelled(task: asyncio.Task[Any], after: int) -> None:
    """Cancel a task after the given number of loop iterations."""
    for _ in range(after):
        if task.done():
            return
        await turns(1)
    task.cancel()


async def _cancel_many(url: str, count: int, rng: random.Random) -> dict[str, int]:
    counts: Counter[str] = Counter()
    sent: Counter[bytes] = Counter()
    got: Counter[bytes] = Counter()
    settings = Settings(max_connections=16)
    async with await mqredis.asyncio.connect(url, settings=settings) as qm:
        await qm.create_queue("c")
        queue = await qm.open("c")

        async def one(number: int) -> None:
            body = b"%d" % number
            if rng.random() < 0.5:
                await queue.send(body)
                sent[body] += 1
            else:
                got[(await queue.receive(0)).body] += 1

        for at in range(0, count, 8):
            tasks = [asyncio.create_task(one(n)) for n in range(at, at + 8)]
            await asyncio.gather(*(_cancelled(task, rng.randint(0, 24)) for task in tasks))
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, asyncio.CancelledError):
                    counts["cancelled"] += 1
                elif isinstance(result, BaseException) and not isinstance(result, mqredis.IoTimeout):
                    raise result
            counts["tasks"] += 8
            # A call for several goes on when all of them are cancelled; its token is told when it has ended.
            while (lane := queue._handle.batchers.get(Send)) and lane.under_way:
                await turns(1)
            for token in list(qm._driver.unknown):
                found = await qm.resolve(token)
                counts["unknown outcomes"] += 1
                if found.outcome == "done" and found.status == 0:
                    _account(found, sent, got)
        while True:
            try:
                got.update(message.body for message in await queue.receive_many(256, 0))
            except mqredis.IoTimeout:
                break
        # A send whose outcome was resolved as done has no body to count by: it is in the sum.
        unnamed = sent.pop(b"?", 0)
        if unnamed != (got - sent).total() or sent - got:
            lost, extra = (sent - got).total(), (got - sent).total()
            raise AssertionError(f"{lost} messages lost, {extra} nobody sent, {unnamed} sent unknowingly")
        if any(n > 1 for n in got.values()):
            raise AssertionError("a message was received twice")
        report = await qm.doctor()
        assert report.healthy, report.findings[:3]
    return dict(counts)


def _account(found: Any, sent: Counter[bytes], got: Counter[bytes]) -> None:
    """A call that was cancelled and has run: was it a send or a receive, and of what?"""
    if found.messages:
        got.update(message.body for message in found.messages)
    else:
        sent[b"?"] += 1


@check(
    "cancellations",
    "tasks cancelled at any moment: no reply reaches the wrong one, nothing is lost, no socket leaks",
)
def cancellations(run: Run) -> None:
    """Cancel tasks after random numbers of loop iterations, resolve unknown outcomes, and count messages."""
    with RedisServer() as server, server.client() as raw:
        before = len(raw.client_list())
        found = asyncio.run(_cancel_many(server.url, run.size(100_000, 400), run.rng("cancel")))
        run.counts.update(found)
        gc.collect()
        raw.ping()
        left = len(raw.client_list()) - before
        assert left <= 1, f"{left} connections are left over"
