"""The drivers run operations against a server. Only they import redis-py.

``sync`` and ``aio`` are the two drivers; ``connect`` makes their connections (``net``), and ``waiting`` lets their
operations sleep. Modules that end with ``_aio`` and have a twin that begins with "Generated" are changed alone
(``tools/generate_blocking.py``). ``deploy``, ``guard`` and ``subscription`` stand beside the drivers.
"""
