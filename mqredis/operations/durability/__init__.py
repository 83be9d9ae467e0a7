"""Durability: changes that must be on disk or on replicas before a call returns (docs/decisions/durability.md).

``changes`` tells which calls change something permanently, ``levels`` which command of a server waits for a level, and
``wrapper`` makes an operation wait: the interfaces use it for ``durability=`` of a method, the drivers for that of the
settings. A driver does the waiting (``mqredis.drivers.durability``).
"""
