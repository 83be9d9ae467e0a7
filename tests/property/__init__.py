"""Random operations: the model and the broker side by side, fakeredis and Redis in lock-step."""
