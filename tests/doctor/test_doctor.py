"""The doctor is silent about a healthy store, however large or busy, and about what clients leave behind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import mqredis
from mqredis import Outgoing
from mqredis.commands import doctor as commands
from mqredis.keys import ManagerKeys
from tests.doctor.conftest import GHOST, Patient
from tests.support.backend import Backend
from tests.support.counts import set_count


def test_a_healthy_store_has_no_findings(full: Patient) -> None:
    report = full.qm.doctor()
    assert report.findings == ()
    assert report.consistent
    assert (report.queues, report.messages, report.transactions, report.sessions) == (3, 14, 1, 1)
    assert report.healthy


def test_an_empty_manager_is_healthy(patient: Patient) -> None:
    assert patient.codes() == set()


def test_pages_give_the_same_picture(full: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    full.qm.open("orders").send_many([b"%d" % n for n in range(3000)])
    whole = full.qm.doctor()
    plain = commands.audit

    def small(manager: ManagerKeys, paths: Sequence[str], place: str, budget: int = 7) -> object:
        return plain(manager, paths, place, budget)

    monkeypatch.setattr(commands, "audit", small)
    paged = full.qm.doctor()
    assert paged.messages == whole.messages == 3014
    assert paged.findings == ()
    assert paged.consistent


def test_everything_lapsed_is_healthy_before_and_after_maintenance(full: Patient) -> None:
    full.qm.advance_clock(3600)
    assert full.codes() == set()
    full.qm.open("tx").peek(0)  # this queue notices the end of the transaction; it may be the only one
    assert full.codes() == set()
    full.qm.maintain()
    assert full.codes() == set()


def test_timers_that_never_ring_are_no_timers(patient: Patient) -> None:
    patient.qm.create_queue("a")
    patient.qm.open("a").send(b"x", dedup_key="k", dedup_window=60)
    assert patient.codes() == set()
    patient.qm.maintain()
    assert patient.codes() == set()


def test_many_queues(patient: Patient) -> None:
    for n in range(60):
        patient.qm.create_queue(f"q{n}")
        patient.qm.open(f"q{n}").send(b"x")
    report = patient.qm.doctor()
    assert report.findings == ()
    assert (report.queues, report.messages) == (60, 60)
    patient.raw.zadd(patient.key("q59.a"), {"0400000000000fff": 0})
    patient.raw.expire(patient.key("q58.m"), 1000)
    assert patient.codes() == {"stray.a", "key.ttl"}
    assert patient.codes(repair=True)
    assert patient.codes() == set()


def test_what_clients_left_behind_is_a_notice_and_goes(full: Patient) -> None:
    full.raw.zadd(full.key("handles"), {"orders|98|1|all|none": 0})
    full.raw.zadd(full.key("orders.w"), {"98.1 D k0 -": 1})
    full.raw.hset(full.key("orders.q"), "tickets", 5)
    set_count(full.raw, full.key("orders.q"), "waiting", 1)
    full.raw.hset(full.key("meta"), "98.1!", "h 0400000000000001")
    report = full.qm.doctor()
    left = {"handle.left", "waiter.left", "slot.left"}
    assert report.findings == ()
    assert {item.code for item in report.advice if item.severity == "notice"} >= left
    full.qm.doctor(repair=True)
    assert not {item.code for item in full.qm.doctor().advice} & left


def test_handles_go_with_their_session_and_their_queue(patient: Patient, backend: Backend) -> None:
    patient.qm.create_queue("a")
    patient.qm.create_queue("b")
    with mqredis.connect(backend.client(), manager=patient.qm.name) as other:
        other.open("a")
        other.open("a")
        assert patient.raw.zcard(patient.key("handles")) == 2
    assert patient.raw.zcard(patient.key("handles")) == 0
    patient.qm.open("a"), patient.qm.open("b")
    patient.qm.delete_queue("a")
    assert patient.raw.zcard(patient.key("handles")) == 1
    assert not {item.code for item in patient.qm.doctor().advice if item.severity == "notice"} & {
        "handle.left"
    }


def test_a_slot_whose_fate_others_decided_goes_with_its_session(patient: Patient, backend: Backend) -> None:
    other = mqredis.connect(backend.client(), manager=patient.qm.name)
    token = f"{other._driver.session}.7:1"  # of a call that never arrived
    assert patient.qm.resolve(token).outcome == "never"
    other.close()
    assert patient.codes() == set()


def test_a_store_that_never_rests_is_not_compared(full: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, orders = commands.audit, full.qm.open("orders")

    def busy(manager: ManagerKeys, paths: Sequence[str], place: str, budget: int = 5) -> object:
        orders.send(Outgoing(body=b"more"))
        return plain(manager, paths, place, budget)

    monkeypatch.setattr(commands, "audit", busy)
    set_count(full.raw, full.key("orders.q"), "bytes", 1)
    full.raw.zadd(full.key("orders.a"), {GHOST: 0})
    report = full.qm.doctor()
    assert not report.consistent
    assert {finding.code for finding in report.findings} == {"stray.a"}  # true by itself; sums are left out
