"""The operations of the broker, as objects or generators that yield steps: no input or output, no threads.

The classes of ``mqredis.asyncio``, and so those of ``mqredis.client``, make them; ``mqredis.drivers`` runs them.
"""
