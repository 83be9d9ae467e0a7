"""A year of departures through the broker: ``python -m demo``."""
