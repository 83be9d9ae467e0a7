"""What the broker can do, as generators that yield steps: no IO, no clock, no threads."""
