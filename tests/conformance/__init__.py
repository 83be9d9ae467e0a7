"""The published cases of the specification, one file per event, on every interface and every store."""
