"""Waiting for messages: which operations wait, and how a notification of the server ends their waits.

``mode`` finds out how this server can notify, ``table`` holds the waits and the wake channels of their slots, and a
``registry`` subscribes to these channels and lets operations sleep, one for threads and one for tasks. Threads take
turns reading the subscription (``reader``). A notification may carry a locked message (``handoff``).
"""
