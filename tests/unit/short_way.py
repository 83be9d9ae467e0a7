"""A queue behind which nobody is: what is asked is written down, and answered as a test says, with or without the short
way (docs/decisions/0041)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mqredis
import mqredis.asyncio
from mqredis.asyncio.locked import LockedMessage as AsyncLockedMessage
from mqredis.client.locked import LockedMessage
from mqredis.commands.common import Address
from mqredis.errors import MqError
from mqredis.keys import ManagerKeys
from mqredis.models import Access, Message, Share
from mqredis.operations.context import Context, Handle, UnitOfWork
from mqredis.settings import Settings
from mqredis.status import Status
from mqredis.steps import Call, Durable, Listen, Now, Way, Woken

KEYS = ManagerKeys("short")
RECORD = b"1795414131274h\3csc-1\0body"
IDS = [b"0400000000000001", b"0400000000000002"]
EARLIER = "0300000000000000"

Answer = tuple[int, Any]


def found(*ids: bytes, lost: list[Any] | None = None, **other: Any) -> Answer:
    parts = {
        "fence": b"16",
        "deadline": b"1795414161337",
        "now": 1795414131337,
        "state": b"1 0 0 0",
        "record": RECORD,
    }
    parts |= other
    payload = [parts["fence"], parts["deadline"], parts["now"], *(lost or [0])]
    return 0, [*payload, b"".join(ids), parts["state"], *[parts["record"]] * len(ids)] if ids else payload


#: What comes first; whoever asks on is told that nothing is there.
READS: dict[str, Answer] = {
    "one": found(IDS[0]),
    "never delivered": found(IDS[0], state=b""),
    "no lease": found(IDS[0], deadline=b""),
    "large": (0, [*found(IDS[0])[1][:-1], RECORD.replace(b"h\3", b"p\3")[:-4], b"large"]),
    "the settled one is lost": found(IDS[0], lost=[2, EARLIER.encode(), b"f"]),
    "two": found(*IDS),
    "it was there": found(),
    "nothing": (int(Status.WAITING), [b"", -1, 0]),
    "nothing, and one is lost": (int(Status.WAITING), [b"", -1, 2, EARLIER.encode(), b"g"]),
    "more timers": (int(Status.WAITING), [b"", 0, 0]),
    "goes on": (int(Status.CONTINUE), [b"", -1, 0, IDS[0]]),
    "more queues": (int(Status.KEYS_CHANGED), [b"q;journal"]),
    "refused": (int(Status.QUEUE_NOT_AVAILABLE), []),
    "over": (int(Status.TRANSACTION_SEQUENCE), []),
    "no id": found(b"04000000000000zz"),
    "an id with a sign": found(b"+400000000000001"),
    "a short id": found(IDS[0][1:]),
    "no state": found(IDS[0], state=b"1 0 0"),
    "two states": found(IDS[0], state=b"1 0 0 0,1 0 0 0"),
    "no record": found(IDS[0], record=b"1795414131274"),
    "no text": found(IDS[0], record=RECORD.replace(b"c-1", b"\xff")),
    "no deadline": found(IDS[0], deadline=b"soon"),
    "no time": found(IDS[0], now=b"now"),
    "no fence": found(IDS[0], fence=7),
    "no lost": found(IDS[0], lost=[b"x"]),
    "too short": (0, [b"16"]),
    "nothing at all": (0, None),
}
SENDS: dict[str, Answer] = {
    "taken": (0, [IDS[0]]),
    "taken, no transaction": (0, [IDS[0], b""]),
    "begun": (0, [IDS[0], b"16"]),
    "full": (int(Status.ENQUEUE_QUEUE_QUOTA), []),
    "gone": (int(Status.QUEUE_NOT_AVAILABLE), []),
    "over": (int(Status.TRANSACTION_SEQUENCE), []),
    "more queues": (int(Status.KEYS_CHANGED), [b"q;journal"]),
    "two ids": (0, [b"".join(IDS), b""]),
    "no id": (0, [b"04000000000000zz", b""]),
    "no fence": (0, [IDS[0], 16]),
    "too short": (0, []),
    "too long": (0, [IDS[0], b"", b""]),
    "nothing at all": (0, None),
}
COMMITS: dict[str, Answer] = {
    "done": (0, [1795414131337]),
    "lost": (0, [1795414131337, IDS[0], b"g"]),
    "lost to nobody knows whom": (0, [1795414131337, IDS[0], b"?"]),
    "more queues": (int(Status.KEYS_CHANGED), [b"q;journal"]),
    "gone": (int(Status.QUEUE_NOT_AVAILABLE), []),
    "no time": (0, [b"now"]),
    "nothing at all": (0, None),
}
ENDS: dict[str, Answer] = {
    "done": (0, []),
    "more queues": (int(Status.KEYS_CHANGED), [b"q;journal"]),
    "over": (int(Status.TRANSACTION_SEQUENCE), []),
    "gone": (int(Status.MANAGER_NOT_FOUND), []),
}


class Broker:
    """Stands for the manager and its driver. Writes down what it is asked, and answers the first with ``answer``."""

    def __init__(self, answer: Answer | MqError, short: bool, waits: bool) -> None:
        self.left = [answer]
        self.short = short
        self.waits = waits  # asyncio
        self.log: list[Any] = []
        self.went = False
        #: What happens between the first question and its answer.
        self.meanwhile: Callable[[], object] = lambda: None
        self.now = 0.0
        self._driver = self

    def answer(self, call: Call[Any]) -> Answer:
        args = [arg if isinstance(arg, bytes) else str(arg).encode() for arg in call.args]
        script, names = call.script, call.keys.keys
        if script == "send_plain":  # is a send that does what that one would, or nothing
            if self.left and isinstance(self.left[-1], tuple) and self.left[-1][0] != Status.OK:
                return int(Status.KEYS_CHANGED), []
            script, names = "send", KEYS.call("q").keys
        self.log.append((script, names, args, call.changes))
        if call.script == "leave":
            return 0, []
        nothing: Answer = (int(Status.WAITING), [b"", -1, 0]) if call.script == "receive" else (0, [])
        answer = self.left.pop() if self.left else nothing
        if isinstance(answer, MqError):
            raise answer
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return answer

    def straight(self, way: Way[Any], differing: Any, _turn: object = None) -> Any:
        found = None
        if self.short:
            self.went = True
            if not self.waits:
                return self.answer(way.call(differing))

        async def later() -> Any:
            return self.answer(way.call(differing)) if self.short else None

        return later() if self.waits else found

    def _run(self, operation: Any, turn: object = None) -> Any:
        async def later() -> Any:
            return self.carry(operation)

        return later() if self.waits else self.carry(operation)

    run = _run

    def carry(self, operation: Any) -> Any:
        answer: Any = None
        try:
            while True:
                step = operation.send(answer)
                if type(step) is Call:
                    try:
                        answer = self.answer(step)
                    except MqError as error:
                        operation.throw(error)
                elif type(step) is Durable:
                    self.log.append(step.level)
                    answer, step.reached = self.answer(step.call), step.level
                elif type(step) is Now:
                    answer = self.now = self.now + 1.0
                else:
                    self.log.append(type(step))
                    answer = "k" if type(step) is Listen else Woken.RUNG
        except StopIteration as stop:
            return stop.value


class World:
    """A queue, a transaction and two locks from before."""

    def __init__(
        self, answer: Answer | MqError, face: str, short: bool, flags: str = "", waited: bool = False
    ) -> None:
        self.broker = Broker(answer, short, face == "asyncio")
        context = Context(KEYS, Settings())
        self.handle = Handle(
            context, Address(KEYS, "q", "1"), "1", Access.ALL, Share.DENY_NONE, flags, 10_000
        )
        self.handle.waited = waited
        self.unit = UnitOfWork(context, "t1", 1000, "15", {"q": None})
        module: Any = mqredis.asyncio if face == "asyncio" else mqredis
        kind: Any = AsyncLockedMessage if face == "asyncio" else LockedMessage
        self.queue = module.Queue(self.broker, self.handle)
        self.transaction = module.Transaction(self.broker, self.unit)
        self.locks: list[Any] = []
        self.held: list[Any] = []
        for n in (0, 1):
            key = f"{int(EARLIER, 16) + n:016x}"
            lock = kind()
            lock._grant = SimpleNamespace(handle=self.handle, unit=None, fence="15", queue=self.queue)
            lock._key = key
            lock._found = int(key, 16), b"", RECORD[:-5], b"body"
            self.handle.locks[key] = "15"
            self.locks.append(lock)

    def left(self) -> list[Any]:
        unit = self.unit
        return [
            self.broker.log,
            [*self.handle.locks.items()],
            [lock._settled for lock in self.locks],
            [unit.fence, unit.finished, [*unit.paths]],
            self.handle.address.call.keys,
        ]


Work = Callable[[World], Any]


def told(result: Any) -> Any:
    """What a caller sees of it."""
    if isinstance(result, list):
        return [told(one) for one in result]
    if isinstance(result, Message):
        return result.model_dump()
    if isinstance(result, LockedMessage | AsyncLockedMessage):
        shared = result.fence, result._grant.lease, result._grant.queue.name
        return result._key, result.lookup_id, result.body, told(result.message), result.settled, *shared
    return result.model_dump() if isinstance(result, mqredis.Sent) else result


def outcome(work: Work, world: World) -> Any:
    async def waited() -> Any:
        result = work(world)
        return await result if inspect.isawaitable(result) else result

    try:
        return told(asyncio.run(waited()) if world.broker.waits else work(world))
    except MqError as error:
        return type(error), str(error).replace("send_plain answered", "send answered")


def both(work: Work, answer: Answer | MqError, face: str, **named: Any) -> World:
    """Do it both ways; the world where it went the short way, if it did."""
    worlds = [World(answer, face, short, **named) for short in (False, True)]
    usual, short = [(outcome(work, world), world.left()) for world in worlds]
    assert usual == short
    return worlds[1]
