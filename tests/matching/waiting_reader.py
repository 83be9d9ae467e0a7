"""Readers that wait: one that is polled and watched call by call, and several of one queue."""

from __future__ import annotations

import mqredis
from mqredis import Outgoing, Settings
from mqredis.commands import read, waiting
from mqredis.commands.waiting import Waiter
from mqredis.keys import QUEUE_PARTS, ManagerKeys
from mqredis.steps import perform
from tests.support.facade import PATIENCE

PLAIN = Settings(test_clock=True, allow_volatile=True)


class Reader:
    """A waiting reader that subscribes to its wake channel and polls only when the test says so."""

    def __init__(self, backend, manager, text=b"", kind="D", queue="q"):
        self.qm = mqredis.connect(backend.client(), manager=manager, settings=PLAIN)
        self.raw, self.text = backend.client(), text
        self.keys, self.queue = ManagerKeys(manager), queue
        self.waiter = Waiter(f"{kind} p0 -")
        self.address = self.qm.open(queue)._handle.address
        others = set(self.waiting())
        assert self.poll() == []
        (member,) = set(self.waiting()) - others
        self.slot = member.split()[0].decode()
        self.channel = self.raw.pubsub()
        self.channel.subscribe(f"__keyspace@0__:{self.keys.tag}wake:{self.slot}")
        assert self.channel.get_message(timeout=PATIENCE)["type"] == "subscribe"

    def waiting(self):
        return self.raw.zrange(self.keys.queue(self.queue)[QUEUE_PARTS.index("w")], 0, -1)

    def poll(self):
        found = self.qm.run(perform(read.receive(self.address, "take", waiter=self.waiter, match=self.text)))
        self.waiter.ticket = found.ticket
        return [raw[2].rpartition(b"\0")[2].decode() for raw in found.messages]

    def leave(self):
        self.qm.run(perform(waiting.leave(self.address, self.waiter.registration, self.text)))

    @property
    def notified(self):
        return self.raw.hget(self.keys.own[0], self.slot + "!") is not None

    @property
    def was_woken(self):
        """Was anything published for it since this was asked last?"""
        (name,) = self.channel.channels
        self.raw.publish(name, "asked")
        found: list[bytes] = []
        while found[-1:] != [b"asked"]:
            found.append(self.channel.get_message(timeout=PATIENCE)["data"])
        return len(found) > 1

    def close(self):
        self.channel.close()
        self.raw.close()
        self.qm.close()


class WaitingReaders:
    """A queue and readers that wait for its messages, each with its own client."""

    def __init__(self, broker, **properties):
        self.broker, self.queue = broker, broker.queue("r", **properties)
        self.handles = []

    def waits(self, call="receive", *args, **how):
        """Start a reader that waits without a timeout."""
        return self.on(self.handle(), call, *args, **how)

    def handle(self):
        self.handles.append(self.broker.handle("r", recheck_seconds=60))
        return self.handles[-1]

    def on(self, handle, call="receive", *args, **how):
        return self.broker.wait(lambda: getattr(handle, call)(*args, timeout=None, **how), "r")

    def send(self, body, group=None, sequence=None, last=False, **fields):
        return self.queue.send(self.made(body, group, sequence, last, **fields))

    def made(self, body, group=None, sequence=None, last=False, **fields):
        return Outgoing(body=body.encode(), group_id=group, sequence=sequence, last_in_group=last, **fields)

    @property
    def waiters(self):
        return self.broker.qm.queue_info("r").waiters
