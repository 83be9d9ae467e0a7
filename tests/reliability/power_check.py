"""Check: a power cut loses writes that the server had not synced."""

from __future__ import annotations

from functools import partial

import mqredis
from tests.reliability.check import Run, check
from tests.reliability.everysec_check import ROUND, SETTINGS, after, load
from tests.reliability.promotion_check import Writer
from tests.support.power import PowerServer
from tests.support.replication import syncs_on_demand


@check(
    "power cut",
    "the power fails, and of what was not synced nothing is left, or a part: under appendfsync always nothing "
    "acknowledged is lost; under everysec the end is, in whole units, and that is reported; how much is counted",
)
def power_cut(run: Run) -> None:
    """Commit, cut, start again, count; every other time a random part of what was not synced is left."""
    for policy in ("always", "everysec"):
        _under(run, policy)


def _under(run: Run, policy: str) -> None:
    rounds, rng, ids = run.size(200, 2), run.rng("power", policy), set[int]()
    worst_units, worst_ms = 0, 0.0
    # Units of work: more than a second, so that there are syncs between.
    longest = 50 if policy == "always" else 1500
    run.counts[f"cuts, {policy}"] = rounds
    with PowerServer(policy) as server:
        with mqredis.connect(server.url) as qm:
            for name in ("t", "u"):
                qm.create_queue(name, transactional=True)
        levels = ("memory", "fsync") if syncs_on_demand(server) else ("memory",)
        for number in range(rounds):
            # The manager, or what the recovery from the last cut has changed, gets to the disk first: a second cut
            # that takes the recovery along is in tests/client/test_rollback.py.
            server.rewrite_log()
            kept = rng.random() if number % 2 else 0.0
            with mqredis.connect(server.url, settings=SETTINGS) as qm:
                writer = Writer(qm, levels[number // 2 % len(levels)], ids, b" " * 200, number * ROUND)
                times = load(writer, rng.randint(1, longest), partial(server.cut, kept))
                lost, age = after(server, writer, times, qm)
            run.add(f"acknowledged units, {policy} at {writer.level}", len(times))
            if policy == "always" or writer.level == "fsync":
                if lost:
                    raise AssertionError(
                        f"{policy}, {writer.level}: {lost} units were on the disk, and are gone"
                    )
                continue
            run.add("lost units, everysec at memory", lost)
            worst_units, worst_ms = max(worst_units, lost), max(worst_ms, age)
    run.add("written bytes that were gone", server.gone)
    if policy == "everysec":
        run.counts["most units lost by one cut"] = worst_units
        run.counts["oldest lost, ms before the cut"] = round(worst_ms)
