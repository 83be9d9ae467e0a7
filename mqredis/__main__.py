"""``python -m mqredis``."""

from __future__ import annotations

from mqredis.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
