"""The doctor: checks every invariant of the store and the settings of the server, and repairs what it can.

``QueueManager.doctor`` of both interfaces runs :func:`examine`, and with it ``mqredis doctor`` and the console. The
reliability tests run :func:`find` on snapshots of their own.

- ``run``        takes a snapshot, runs the checks, carries out the repairs and makes the report
- ``snapshot``   reads the whole store (``lua/admin/audit.lua``)
- ``checks``     one file for each group of invariants, and ``CHECKS``, the list of all of them
- ``fault``      what a check yields, with the edits that repair it
- ``stored``     reads stored texts without trusting them
- ``advice``     warnings about the server's settings and clock, and about queues with many failed messages

``mqredis.operations.doctor.checks`` says how to add a check. A new warning about the server is a function in
``advice``.
"""

from mqredis.operations.doctor.run import examine, find

__all__ = ["examine", "find"]
