"""Runs schedules on a real server, many at a time, each in its own manager, all in one pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from mqredis.commands import manager as manager_commands
from mqredis.keys import ManagerKeys
from mqredis.operations import doctor
from mqredis.operations.doctor import snapshot
from mqredis.operations.doctor.snapshot import Store
from mqredis.status import Status
from mqredis.steps import Call, Refused
from tests.reliability.moves import Clock, Maintain, Step
from tests.reliability.schedule import Event, text
from tests.reliability.wire import Answer, Shot, Wire, fire
from tests.reliability.world import Broken, Client, World

# Worlds that run side by side.
WIDTH = 96
# Answers of calls that did nothing, which resolve calls "never".
_NOTHING = (Status.KEYS_CHANGED, Status.OPERATION_CANCELLED)
# Longer than all leases of a scenario together, in ms.
AEON = 3_600_000


@dataclass(frozen=True)
class Scenario:
    """What a few clients do with the queues that ``setup`` makes."""

    name: str
    queues: tuple[str, ...]
    setup: tuple[Step, ...]
    clients: dict[str, tuple[Step, ...]]
    check: Callable[[World, Store], None] | None = None
    expires: bool = False
    middle: Callable[[World, Store], None] | None = None
    """Looked at when the clients are through, before the clock moves on."""
    apart: tuple[str, ...] = ()
    """Queues that messages may have gone to by a policy; copies there are for ``check`` to count."""
    drops: bool = False
    """Its policy may end in nothing."""
    closing: tuple[Step, ...] = ()
    """Calls that end what does not end by time."""
    weight: float = 1.0
    """How much of an equal share of the schedules it gets: less where each takes long."""


class Failed(AssertionError):
    """A schedule that violated a guarantee, with the line that reproduces it."""

    def __init__(self, scenario: Scenario, events: Sequence[Event], why: str) -> None:
        super().__init__(f"scenario {scenario.name!r}, schedule {text(events)!r}: {why}")
        self.scenario, self.events, self.why = scenario, events, why


@dataclass
class Execution:
    """The state of one running schedule."""

    scenario: Scenario
    world: World
    events: list[Event]
    at: int = 0
    shots: dict[tuple[str, int], Shot | None] = field(default_factory=dict)
    carried: set[int] = field(default_factory=set)  # ids of shots that were carried out
    never: set[int] = field(default_factory=set)  # and of those whose client was told that they were not


class Engine:
    """Runs schedules and raises at the first violation."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.keys = [ManagerKeys(f"s{n}") for n in range(WIDTH)]
        # Of the only session of each; more slots than any schedule uses.
        wire.listen([keys.channel(f"1.{n}", 0) for keys in self.keys for n in range(1, 16)])
        self.schedules = 0
        self.states: set[int] = set()
        self._texts: dict[tuple[bytes, ...], None] = {}

    def run(self, scenario: Scenario, schedules: Iterable[list[Event]]) -> int:
        """Run them all; raises Failed. How many there were."""
        source = iter(schedules)
        count = 0
        while batch := list(islice(source, WIDTH)):
            self._batch(scenario, batch)
            count += len(batch)
        self.schedules += count
        return count

    def _batch(self, scenario: Scenario, batch: list[list[Event]]) -> None:
        self.wire.command("FLUSHDB")
        keys = self.keys[: len(batch)]
        executions = []
        for own, session, events in zip(keys, self.wire.open_session(keys), batch, strict=True):
            world = World(own, session, {})
            for name in ("setup", "end", *scenario.clients):
                world.clients[name] = Client(name, world.new_place())
            executions.append(Execution(scenario, world, events))
        for step in scenario.setup:
            self._all(executions, "setup", step)
        live = executions
        while live := [execution for execution in live if execution.at < len(execution.events)]:
            self._round(live)
        self._picture(executions, final=False)
        self._all(executions, "end", Clock(AEON))
        for _ in range(2):
            for queue in scenario.queues:
                self._all(executions, "end", Maintain(queue))
        for step in scenario.closing:
            self._all(executions, "end", step)
        self._picture(executions, final=True)
        self.wire.hear()

    # ---- one step of every schedule --------------------------------------------------------------

    def _all(self, executions: Sequence[Execution], who: str, step: Step) -> None:
        waiting = []
        for execution in executions:
            me = execution.world.clients[who]
            call = step.call(execution.world, me)
            if call is not None:
                waiting.append((execution, me, fire(call, me.place)))
        answers = self.wire.volley([shot for _, _, shot in waiting])
        for (execution, me, shot), answer in zip(waiting, answers, strict=True):
            with _blame(execution):
                self._enter(execution, step, me, shot, answer)
                step.told(execution.world, me, answer)

    def _round(self, live: Sequence[Execution]) -> None:
        waiting: list[tuple[Execution, Event, Shot]] = []
        for execution in live:
            event = execution.events[execution.at]
            execution.at += 1
            shot = self._shot(execution, event)
            if shot is not None:
                waiting.append((execution, event, shot))
        answers = self.wire.volley([shot for _, _, shot in waiting])
        for (execution, event, shot), answer in zip(waiting, answers, strict=True):
            with _blame(execution):
                self._answered(execution, event, shot, answer)

    def _shot(self, execution: Execution, event: Event) -> Shot | None:
        name, number, how = event
        me = execution.world.clients[name]
        if how in ("", "l", "d"):
            call = execution.scenario.clients[name][number].call(execution.world, me)
            shot = execution.shots[name, number] = None if call is None else fire(call, me.place)
            return None if how == "d" else shot
        shot = execution.shots.get((name, number))
        if shot is None or how != "q":
            return shot
        if not shot.sequence:
            return None
        # A slot whose outcome is unknown is not used any more.
        token = f"{shot.slot}:{shot.sequence}"
        me.place = execution.world.new_place()
        return fire(manager_commands.resolve(execution.world.keys, token), me.place)

    def _answered(self, execution: Execution, event: Event, shot: Shot, answer: Answer) -> None:
        name, number, how = event
        me, step = execution.world.clients[name], execution.scenario.clients[name][number]
        if how == "q":
            self._resolved(execution, event, answer)
            return
        first = id(shot) not in execution.carried
        if how in ("r", "c") and not first:
            self._repeated(shot, answer, how)
        elif how == "c" and id(shot) in execution.never:
            if int(answer.raw[0]) not in (Status.OPERATION_CANCELLED, Status.TOKEN_REUSED):
                raise Broken(f"{shot.call.script} ran after its outcome was fixed as never")
        else:
            execution.carried.add(id(shot))
            self._enter(execution, step, me, shot, answer)
        if how in ("", "r"):
            step.told(execution.world, me, answer)

    def _enter(self, execution: Execution, step: Step, me: Client, shot: Shot, answer: Answer) -> None:
        step.enter(execution.world, me, shot.call, answer)

    def _repeated(self, shot: Shot, answer: Answer, how: str) -> None:
        if not shot.sequence:
            return
        first = shot.answers[0]
        if how == "c" and int(answer.raw[0]) == Status.TOKEN_REUSED:
            return
        if answer.raw[:3] != first.raw[:3]:
            raise Broken(f"{shot.call.script} repeated answered {answer.raw[:3]}, first {first.raw[:3]}")
        if _flat(answer.raw) != _flat(first.raw) and not _again(first.raw, answer.raw):
            raise Broken(f"{shot.call.script} repeated answered {answer.raw}, first {first.raw}")

    def _resolved(self, execution: Execution, event: Event, answer: Answer) -> None:
        name, number, _ = event
        shot = execution.shots[name, number]
        assert shot is not None
        if answer.refused:
            raise Broken(f"resolve was refused: {answer.value}")
        outcome = answer.value.outcome
        done = id(shot) in execution.carried
        if done and outcome == "never" and int(shot.answers[0].raw[0]) in _NOTHING:
            done = False
        if outcome != ("done" if done else "never"):
            raise Broken(f"{shot.call.script} is said to be {outcome}")
        if outcome == "never":
            execution.never.add(id(shot))
        else:
            if answer.value.status != int(shot.answers[0].raw[0]):
                raise Broken(f"{shot.call.script} is said to have answered {answer.value.status:#x}")
            me, step = execution.world.clients[name], execution.scenario.clients[name][number]
            if shot.call.script != "receive":
                step.told(execution.world, me, shot.answers[0])

    # ---- the state at the end --------------------------------------------------------------------

    def _picture(self, executions: Sequence[Execution], final: bool) -> None:
        """Take a snapshot of every store, run the doctor on it, and compare it with the ledger."""
        looks: list[tuple[Execution, Any, Call[Any]]] = []
        for execution in executions:
            operation = iter(snapshot.take(execution.world.keys))
            looks.append((execution, operation, next(operation)))  # type: ignore[arg-type]
        while looks:
            answers = self.wire.volley([Shot(call, "0.0", 0) for _, _, call in looks])
            further = []
            for (execution, operation, _), answer in zip(looks, answers, strict=True):
                try:
                    step = operation.send((int(answer.raw[0]), answer.raw[3:]))
                    while not isinstance(step, Call):
                        step = operation.send(Refused("not searched", True))
                    further.append((execution, operation, step))
                except StopIteration as stop:
                    with _blame(execution):
                        self._check_store(execution, stop.value, final)
            looks = further

    def _check_store(self, execution: Execution, store: Store, final: bool) -> None:
        faults = [fault for fault in doctor.find(store) if fault.severity == "error"]
        if faults:
            raise Broken("; ".join(f"{f.code} {f.where} {f.text}" for f in faults[:3]))
        if not final:
            if execution.scenario.middle is not None:
                execution.scenario.middle(execution.world, store)
            return
        self._place(execution, store)
        if execution.scenario.check is not None:
            execution.scenario.check(execution.world, store)

    def _place(self, execution: Execution, store: Store) -> None:
        """Check that each message is where the ledger says."""
        apart = set[str]()
        for path in execution.scenario.apart:
            apart.update(store.queues[path].records if path in store.queues else ())
        ledger = execution.world.ledger
        expected = ledger.expected()
        for path, view in store.queues.items():
            if path in execution.scenario.apart:
                continue
            wanted, there = expected.pop(path, set()), set(view.records)
            lost = wanted - there - ledger.brittle - apart
            if lost and not execution.scenario.drops:
                raise Broken(f"{path} has lost {sorted(lost)}")
            if extra := there - wanted:
                raise Broken(f"{path} holds {sorted(extra)}, which must not be there")
            if stuck := [lid for lid, record in view.records.items() if not record.available]:
                raise Broken(f"{path}: {stuck} are not available although every lease is over")
        for path, wanted in expected.items():
            if wanted - ledger.brittle:
                raise Broken(f"{path} is gone with {sorted(wanted)}")
        self.states.add(hash((execution.scenario.name, *sorted(ledger.state.items()))))


class _blame:  # noqa: N801 - reads as a word of the language
    """Add the schedule to the error of a violated guarantee."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Broken):
            raise Failed(self.execution.scenario, self.execution.events, str(error)) from error


def _flat(raw: Sequence[Any]) -> list[bytes]:
    """A reply in one form: a stored one has texts where the first one had numbers."""
    return [item if isinstance(item, bytes) else b"%d" % item for item in raw]


def _again(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """A locked message that has left meanwhile is missing from a repeated answer, and nothing else is.

    State records may differ: they are read anew.
    """
    wanted, got = _flat(first), _flat(second)
    return len(got) <= len(wanted) and got[3:6] == wanted[3:6]


def chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Split into slices of this size."""
    for at in range(0, len(items), size):
        yield items[at : at + size]
