"""Metrics, and Prometheus' text format.

All of ``mqredis.prometheus``, and the metrics of workers, use it. ``collector`` converts a ``Metric`` for
``prometheus_client`` by itself.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass, field

# New names of metrics by their old ones, under which they are exported as well. A line is removed in the second release
# after the renaming.
RENAMED = {"mqredis_worker_seconds_since_look": "mqredis_worker_seconds_since_read"}
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = dict[str, str]
Sample = tuple[Labels, float]


@dataclass(slots=True)
class Metric:
    """A metric with its samples. ``kind``: gauge, counter, histogram or summary. The name of a counter ends with
    ``_total``, which ``collector`` takes off."""

    name: str
    kind: str
    about: str
    samples: InitVar[Iterable[Sample]] = ()
    series: list[tuple[str, Labels, float]] = field(init=False)
    """Suffix of the name, such as "_bucket" of a histogram; labels; value."""

    @property
    def names(self) -> list[str]:
        """All names under which it is exported: an old one, too, if it was renamed."""
        return [self.name, *(old for old, new in RENAMED.items() if new == self.name)]

    def __post_init__(self, samples: Iterable[Sample]) -> None:
        self.series = [("", labels, value) for labels, value in samples]


def render_text(metrics: Iterable[Metric]) -> str:
    """The metrics in the text format."""
    lines: list[str] = []
    for metric in metrics:
        for name in metric.names:
            lines += [f"# HELP {name} {metric.about}", f"# TYPE {name} {metric.kind}"]
            lines += [_sample(name + suffix, labels, value) for suffix, labels, value in metric.series]
    return "".join(line + "\n" for line in lines)


def _sample(name: str, labels: Labels, value: float) -> str:
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
        self._lock = threading.RLock()  # re-entrant, since a signal handler may make a call that is measured

    def observe(self, seconds: float, **labels: str) -> None:
        """Count one duration. Callers give the labels in the same order each time: another order is another series."""
        key = tuple(labels.items())
        with self._lock:
            # One cell for each bucket, one for larger values, and the sum.
            cells = self._series.setdefault(key, [0.0] * (len(self._buckets) + 2))
            cells[bisect.bisect_left(self._buckets, seconds)] += 1
            cells[-1] += seconds

    def metric(self) -> Metric:
        """The present counts."""
        metric = Metric(self.name, "histogram", self._about)
        with self._lock:
            counts = {key: list(cells) for key, cells in self._series.items()}
        for key, cells in counts.items():
            labels, count = dict(key), 0.0
            for bucket, cell in zip(self._buckets, cells, strict=False):
                count += cell
                metric.series.append(("_bucket", {**labels, "le": f"{bucket:g}"}, count))
            count += cells[-2]
            metric.series.append(("_bucket", {**labels, "le": "+Inf"}, count))
            metric.series.append(("_sum", labels, cells[-1]))
            metric.series.append(("_count", labels, count))
        return metric
