"""The drivers run operations against a server. Only they import redis-py."""
