"""The published cases of the specification, one file per event, on every face and every store."""
