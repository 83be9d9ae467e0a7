"""mqredis beside its peers, on one Redis, in one run: ``python -m bench --quick``. bench/README.md lists the files."""
