"""Filters that Spark pushes down (``spark.sql.python.filterPushdown.enabled``), and so does not evaluate itself.

The batch reader uses it; streams have no pushdown. Spark trusts a filter that ``push`` keeps, so ``apply`` must select
exactly the rows that Spark would (tests/spark/test_batch.py). docs/spark.md names the filters that reduce what is read
(``states`` and ``ids``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as ds

from mqredis.spark.schema import FIELDS

# No lookup id is higher: the column is a BIGINT.
HIGHEST = (1 << 63) - 1

# Columns whose filters we evaluate: every scalar one of ours.
_COLUMNS = frozenset(FIELDS) - {"properties", "headers", "system_headers"}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ds.EqualTo: pc.equal,
    ds.GreaterThan: pc.greater,
    ds.GreaterThanOrEqual: pc.greater_equal,
    ds.LessThan: pc.less,
    ds.LessThanOrEqual: pc.less_equal,
}
_TEXT: dict[type, Callable[..., Any]] = {
    ds.StringStartsWith: pc.starts_with,
    ds.StringEndsWith: pc.ends_with,
    ds.StringContains: pc.match_substring,
}


class Pushed:
    """The filters of one read."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def push(self, filters: Iterable[Any]) -> Iterable[Any]:
        """Keep what we can evaluate; yield the rest, which Spark evaluates."""
        for each in filters:
            if _understood(each):
                self.kept.append(each)
            else:
                yield each

    def columns(self) -> set[str]:
        """Columns that the filters look at."""
        return {_column(each) for each in self.kept}

    def states(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """States that can still match."""
        for each in self.kept:
            if _column(each) == "state":
                if isinstance(each, ds.EqualTo):
                    wanted = tuple(state for state in wanted if state == each.value)
                elif isinstance(each, ds.In):
                    wanted = tuple(state for state in wanted if state in each.value)
        return wanted

    def ids(self) -> tuple[int, int]:
        """Lowest and highest lookup id that can still match. Filters on the priority do not limit them, since the ids
        of messages that were sent in a transaction do not contain it."""
        low, high = 0, HIGHEST
        for each in self.kept:
            if _column(each) == "lookup_id":
                least, most = _range(each)
                low, high = max(low, least), min(high, most)
        return low, high

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Only the rows that match. A comparison with a null is not a match, as in SQL."""
        masks = [_mask(each, batch.column(_column(each))) for each in self.kept]
        return batch.filter(reduce(pc.and_kleene, masks)) if masks else batch


def _column(each: Any) -> str:
    if isinstance(each, ds.Not):
        return _column(each.child)
    attribute = each.attribute
    return str(attribute[0]) if len(attribute) == 1 else ""


def _range(each: Any) -> tuple[int, int]:
    """Between which whole numbers a filter on a column of such lets values through."""
    values: list[Any] = list(each.value) if isinstance(each, ds.In) else [getattr(each, "value", None)]
    if not values or not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return 0, HIGHEST
    has_minimum = isinstance(each, ds.EqualTo | ds.In | ds.GreaterThan | ds.GreaterThanOrEqual)
    has_maximum = isinstance(each, ds.EqualTo | ds.In | ds.LessThan | ds.LessThanOrEqual)
    return max(min(values), 0) if has_minimum else 0, min(max(values), HIGHEST) if has_maximum else HIGHEST


def _understood(each: Any) -> bool:
    if isinstance(each, ds.Not):
        return _understood(each.child)
    kinds = (*_COMPARE, *_TEXT, ds.In, ds.IsNull, ds.IsNotNull)
    if not isinstance(each, kinds) or _column(each) not in _COLUMNS:
        return False
    values = each.value if isinstance(each, ds.In) else (getattr(each, "value", None),)
    return all(value is None or isinstance(value, str | int | bytes | datetime) for value in values)


def _mask(each: Any, column: Any) -> Any:
    value: Any = getattr(each, "value", None)
    if isinstance(each, ds.Not):
        return pc.invert(_mask(each.child, column))
    if isinstance(each, ds.IsNull):
        return column.is_null()
    if isinstance(each, ds.IsNotNull):
        return column.is_valid()
    if isinstance(each, ds.In):
        return reduce(pc.or_kleene, (pc.equal(column, _scalar(one, column.type)) for one in each.value))
    for kind, compare in _COMPARE.items():
        if isinstance(each, kind):
            return compare(column, _scalar(value, column.type))
    for kind, match in _TEXT.items():
        if isinstance(each, kind):
            return match(column, pattern=value)
    raise AssertionError(each)


def _scalar(value: Any, kind: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is None:
        value = value.astimezone()  # Spark hands instants over in the local time of the driver
    return pa.scalar(value, kind)
