"""The clock of a manager whose history a test looks at."""

from __future__ import annotations

import time
from typing import Any

from mqredis.codec.history import BUCKET_MS

# Seconds of a bucket.
BUCKET = BUCKET_MS // 1000


def begin_bucket(qm: Any) -> None:
    """Move the test clock, which was not moved before, to the beginning of a bucket, so that the test ends long before
    the bucket does, unless it moves the clock."""
    qm.advance_clock(BUCKET - time.time() % BUCKET + 1)
