"""Connections: our own over a socket or a transport, and a second kind that goes through a redis-py connection."""
