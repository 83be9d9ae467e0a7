"""A reference model of the broker in plain Python, written from the specification alone."""

from tests.model.manager import ModelManager, connect, forget

__all__ = ["ModelManager", "connect", "forget"]
