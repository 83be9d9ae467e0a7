"""Prometheus' text format."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterable, Sequence

from mqredis import renamed

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = dict[str, str]
Sample = tuple[Labels, float]


def metric(lines: list[str], name: str, kind: str, about: str, samples: Iterable[Sample]) -> None:
    """Add a metric with all its samples."""
    samples = list(samples)
    for each in (name, *renamed.former("metric", name)):
        lines += [f"# HELP {each} {about}", f"# TYPE {each} {kind}"]
        lines += [sample(each, labels, value) for labels, value in samples]


def sample(name: str, labels: Labels, value: float) -> str:
    """One line."""
    inner = ",".join(f'{key}="{_escape(label)}"' for key, label in labels.items())
    return f"{name}{{{inner}}} {float(value):.12g}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Histogram:
    """Counts of seconds by bucket, one series for each set of labels; thread safe."""

    def __init__(self, name: str, about: str, buckets: Sequence[float]) -> None:
        self.name, self._about = name, about
        self._buckets = sorted(buckets)
        self._series: dict[tuple[tuple[str, str], ...], list[float]] = {}
        self._lock = threading.Lock()

    def observe(self, seconds: float, **labels: str) -> None:
        """Count one."""
        key = tuple(labels.items())
        with self._lock:
            # One cell for each bucket, one for what is above, and the sum.
            cells = self._series.setdefault(key, [0.0] * (len(self._buckets) + 2))
            cells[bisect.bisect_left(self._buckets, seconds)] += 1
            cells[-1] += seconds

    def render(self, lines: list[str]) -> None:
        """Add its lines."""
        metric(lines, self.name, "histogram", self._about, ())
        with self._lock:
            series = {key: list(cells) for key, cells in self._series.items()}
        for key, cells in series.items():
            labels, count = dict(key), 0.0
            for bucket, cell in zip(self._buckets, cells, strict=False):
                count += cell
                lines.append(sample(f"{self.name}_bucket", {**labels, "le": f"{bucket:g}"}, count))
            count += cells[-2]
            lines.append(sample(f"{self.name}_bucket", {**labels, "le": "+Inf"}, count))
            lines.append(sample(f"{self.name}_sum", labels, cells[-1]))
            lines.append(sample(f"{self.name}_count", labels, count))
