"""Set the clock of a manager for tests of its history."""

from __future__ import annotations

import time
from typing import Any

from mqredis.codec.history import BUCKET_MS

# Seconds of a bucket.
BUCKET = BUCKET_MS // 1000


def begin_bucket(qm: Any) -> None:
    """Move the test clock, not moved before, to the start of a bucket.

    The test then ends within the bucket, unless it moves the clock itself.
    """
    qm.advance_clock(BUCKET - time.time() % BUCKET + 1)
