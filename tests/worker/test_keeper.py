"""The thread that renews leases: waked only for what is due before it looks by itself."""

from __future__ import annotations

import threading

from mqredis.worker.keeper import Held, Keeper
from tests.drivers.kit import until


class Counted(threading.Condition):
    """Counts its wakes and its waits."""

    wakes = waits = 0

    def notify(self, n: int = 1) -> None:
        self.wakes += 1
        super().notify(n)

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        return super().wait(timeout)


def held(lease: float) -> Held:
    return Held(lambda: None, lease, max_hold=3600, time_limit=None, on_cancel=lambda: None)


def test_only_what_is_due_sooner_wakes_it():
    keeper = Keeper()
    keeper._changed = counted = Counted(keeper._lock)
    try:
        first = held(600)
        keeper.add(first)
        until(lambda: keeper._looks == first.due())
        counted.wakes = 0
        for _ in range(3):
            later = held(601)
            keeper.add(later)
            keeper.remove(later)
        assert counted.wakes == 0
        sooner = held(300)
        keeper.add(sooner)
        assert counted.wakes == 1
        until(lambda: keeper._looks == sooner.due())
    finally:
        keeper.close()


def test_what_is_over_before_it_looks_is_no_reason_to_wake_it_for_the_next():
    keeper = Keeper()
    keeper._changed = counted = Counted(keeper._lock)
    try:
        with counted:  # it does not look before it is over
            keeper.add(first := held(600))
            keeper.remove(first)
        until(lambda: counted.waits)
        counted.wakes = 0
        for _ in range(3):
            keeper.add(later := held(601))
            keeper.remove(later)
        assert counted.wakes == 0
    finally:
        keeper.close()


def test_one_that_holds_nothing_is_waked_by_the_next():
    keeper = Keeper()
    renewed = threading.Event()
    keeper.add(first := held(0.03))
    keeper.remove(first)
    try:
        until(lambda: keeper._looks == float("inf"))
        keeper.add(Held(renewed.set, 0.03, max_hold=3600, time_limit=None, on_cancel=lambda: None))
        assert renewed.wait(30)
    finally:
        keeper.close()
