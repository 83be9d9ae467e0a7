"""Doctor check of what workers say of themselves, and of the pauses that operators have set.

``operations.doctor.checks`` lists it; ``run`` calls it.
"""

from __future__ import annotations

from mqredis.commands.doctor import Edit
from mqredis.commands.workers import KINDS, parse_field
from mqredis.operations.doctor.fault import Fault, Faults, shown
from mqredis.operations.doctor.snapshot import Store


def workers(store: Store) -> Faults:
    """What workers say of themselves, and each pause, can be read. No call lists the others while one cannot."""
    for field, text in store.workers.items():
        kind = field[:2].decode("ascii", "replace")
        if kind == "o:":
            continue  # orders are lines of any text
        try:
            parse_field(field, text, 0, 0)
        except (ValueError, TypeError, KeyError, AttributeError):
            problem = f"its text is {shown(text)!r:.200}"
            if kind[:1] in KINDS:  # to remove it would end the pause
                yield Fault("pause.malformed", shown(field), f"{problem}: resume it, and pause it again")
            else:  # a worker that lives writes it again
                edit = Edit("hdel", store.manager.workers, field)
                yield Fault("worker.malformed", shown(field), problem, (edit,))
