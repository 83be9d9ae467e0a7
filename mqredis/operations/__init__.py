"""The operations of the broker, as objects or generators that yield steps: no input or output, no threads."""
