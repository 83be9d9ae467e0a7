"""Every operation in every state of a message (``tables/states.py``), and the copies that a message leaves."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import KINDS
from tests.conformance.script import Stage
from tests.conformance.tables import states

COLUMNS = [states.THERE, states.HELD, states.SHOWN, states.GONE]


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def steps(text: str) -> list[str]:
    return [step.strip() for step in text.split(";") if step.strip()]


# The rest of the states differ in how they came about, which the scripts decide: two kinds are enough for them.
WHERE = [
    (kind, state)
    for kind in KINDS
    for state in states.STATES
    if kind in ("real-sync", "model-sync") or state in ("locked", "shown", "moved", "aborted")
]


@pytest.mark.parametrize("kind, state", WHERE)
def test_every_operation_has_its_outcome_in_the_state(broker, state):
    """Each operation runs on a queue of its own, so that earlier operations cannot affect it."""
    column = next(n for n, group in enumerate(COLUMNS, 1) if state in group)
    wrong = []
    for row in rows(states.MATRIX):
        stage = Stage(broker, "T")
        for letter in "PAN":
            stage.put(stage["t"], letter, message_id=letter.encode(), properties={"k": letter})
        needs_browser = "b2" in row[0]
        for step in ["c2.peek()", "c2.peek_next()", *(["b2.first()", "b2.next()"] if needs_browser else [])]:
            stage.run(step)
        for step in steps(states.STATES[state]):
            stage.run(step)
        *before, last = steps(row[0])
        try:
            for step in before:
                stage.run(step)
            stage.run(f"{last} -> {row[column]}")
        except AssertionError as error:
            wrong.append(str(error))
        stage.end()
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("row", rows(states.FATES), ids=lambda row: row[0])
def test_messages_and_copies_left_after_the_steps(broker, row):
    stage = Stage(broker, "T journaling=True + ADMIN")
    with broker.qm.transaction() as tx:
        stage.run("keep = Outgoing(body=b'A', message_id=b'A', time_to_be_received=60, " + states.WANTS + ")")
        stage["A"] = stage["t"].send(stage["keep"], transaction=tx).lookup_id
    for step in steps(row[0]):
        nothing_else_to_lock = " -> IO_TIMEOUT" if step.startswith("t.lock_many") else ""
        stage.run(step + nothing_else_to_lock)
    broker.qm.maintain()
    left = [stage.read(stage["t"]), stage.classes()]
    left += [stage.letters("t;journal"), stage.classes("system$;deadxact")]
    assert left == row[1:]
    stage.end()
