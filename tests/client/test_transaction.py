"""Calls on a transaction that has ended."""

from __future__ import annotations

import pytest

import mqredis
from tests.support.backend import Backend


@pytest.mark.parametrize("used", [True, False], ids=["used", "empty"])
@pytest.mark.parametrize("end, what", [("commit", "committed"), ("abort", "aborted")])
def test_call_on_an_ended_transaction_names_how_it_ended(
    backend: Backend, used: bool, end: str, what: str
) -> None:
    with mqredis.connect(backend.client(), settings=mqredis.Settings(allow_volatile=True)) as qm:
        qm.create_queue("t", transactional=True)
        unit = qm.transaction()
        if used:
            qm.open("t").send(b"A", transaction=unit)
        unit.prepare()
        getattr(unit, end)()
        for more in (unit.prepare, unit.commit, unit.abort, unit.extend):
            with pytest.raises(mqredis.TransactionSequence, match=f"is {what} already"):
                more()
