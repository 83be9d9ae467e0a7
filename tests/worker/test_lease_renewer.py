"""The thread that renews leases: woken only if a renewal is due before its next check."""

from __future__ import annotations

import subprocess
import sys
import threading

from mqredis.worker.held_messages import HeldMessages, _raise_in
from mqredis.worker.lease_renewer import LeaseRenewer
from mqredis.worker.outcomes import Cancelled
from tests.support.until import until


class Counted(threading.Condition):
    """Counts its wakes and its waits."""

    wakes = waits = 0

    def notify(self, n: int = 1) -> None:
        self.wakes += 1
        super().notify(n)

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        return super().wait(timeout)


def held(lease: float) -> HeldMessages:
    return HeldMessages(lambda: None, lease, max_hold=3600, time_limit=None, on_cancel=lambda: None)


def test_keeper_is_woken_only_by_an_earlier_renewal():
    renewer = LeaseRenewer()
    renewer._changed = counted = Counted(renewer._lock)
    try:
        first = held(600)
        renewer.add(first)
        until(lambda: renewer._looks == first.due())
        counted.wakes = 0
        for _ in range(3):
            later = held(601)
            renewer.add(later)
            renewer.remove(later)
        assert counted.wakes == 0
        sooner = held(300)
        renewer.add(sooner)
        assert counted.wakes == 1
        until(lambda: renewer._looks == sooner.due())
    finally:
        renewer.close()


def test_keeper_is_not_woken_after_a_message_ended_before_its_first_check():
    renewer = LeaseRenewer()
    renewer._changed = counted = Counted(renewer._lock)
    try:
        with counted:  # the renewer cannot check before this block ends
            renewer.add(first := held(600))
            renewer.remove(first)
        until(lambda: counted.waits)
        counted.wakes = 0
        for _ in range(3):
            renewer.add(later := held(601))
            renewer.remove(later)
        assert counted.wakes == 0
    finally:
        renewer.close()


def test_idle_keeper_is_woken_by_the_next_message():
    renewer = LeaseRenewer()
    renewed = threading.Event()
    renewer.add(first := held(0.03))
    renewer.remove(first)
    try:
        until(lambda: renewer._looks == float("inf"))
        renewer.add(HeldMessages(renewed.set, 0.03, max_hold=3600, time_limit=None, on_cancel=lambda: None))
        assert renewed.wait(30)
    finally:
        renewer.close()


def test_keeper_renews_other_leases_after_an_unexpected_error_of_one(caplog):
    renewer = LeaseRenewer()
    renewed, failed = threading.Semaphore(0), threading.Semaphore(0)

    def fail() -> None:
        failed.release()
        raise RuntimeError("a hook of the application failed")

    try:
        renewer.add(HeldMessages(fail, 0.03, max_hold=3600, time_limit=None))
        assert failed.acquire(timeout=30)
        renewer.add(HeldMessages(renewed.release, 0.03, max_hold=3600, time_limit=None))
        for _ in range(3):
            assert renewed.acquire(timeout=30)
    finally:
        renewer.close()
    assert "could not be renewed: RuntimeError('a hook of the application failed')" in caplog.text


# A handler is cancelled as another thread does it; then a call is traced as by a debugger.
_CANCELLED_THEN_TRACED = """
import sys
from mqredis.worker.held_messages import HeldMessages
from mqredis.worker.outcomes import Cancelled

held = HeldMessages(lambda: None, 30, max_hold=60, time_limit=None)

def handler():
    held.cancel(Cancelled("its time is over"))
    while True:
        pass

try:
    held.run(handler)
except Cancelled:
    sys.settrace(lambda *_: None)
    print((lambda: "came back")())
"""


def test_process_can_be_traced_after_a_handler_was_cancelled():
    # In a process of its own: if CPython 3.11 loops over a pending exception, no time limit in this process stops it.
    ran = subprocess.run(
        [sys.executable, "-c", _CANCELLED_THEN_TRACED], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout == "came back\n"


def test_cancellation_after_the_handler_returned_is_ignored():
    class Late(HeldMessages):
        def _uninterruptible(self) -> Exception | None:
            super()._uninterruptible()
            _raise_in(threading.get_ident(), Cancelled)
            return ValueError("too late")

    assert Late(lambda: None, 30, max_hold=60, time_limit=None).run(lambda: "done") == "done"
