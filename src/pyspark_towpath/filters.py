"""Filters that Spark pushes down: they narrow the plan, and Spark applies them again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from pyspark_towpath.read_options import microseconds
from towpath.reading.slice_rows import TimeRange
from towpath.reading.topic import Span
from towpath.records import table


@dataclass(frozen=True)
class Interval:
    """Whole numbers in `[least, most]`; None is no bound."""

    least: int | None = None
    most: int | None = None

    def above(self, least: int) -> Interval:
        """Those from a number on."""
        return replace(self, least=least if self.least is None else max(self.least, least))

    def below(self, most: int) -> Interval:
        """Those up to a number."""
        return replace(self, most=most if self.most is None else min(self.most, most))

    def holds(self, number: int) -> bool:
        """Whether it is one of them."""
        return (self.least is None or number >= self.least) and (
            self.most is None or number <= self.most
        )


@dataclass(frozen=True)
class Narrowed:
    """What the filters leave to be read."""

    partitions: Interval = Interval()
    offsets: Interval = Interval()
    times_us: Interval = Interval()

    def span(self, span: Span) -> Span:
        """The part of a span that has the offsets."""
        start, end = span.start or 0, span.end or 0
        if self.offsets.least is not None:
            start = min(max(start, self.offsets.least), end)
        if self.offsets.most is not None:
            end = max(min(end, self.offsets.most + 1), start)
        return Span(start, end)

    def times(self, given: TimeRange | None) -> TimeRange | None:
        """The times that are wanted, given those of the options."""
        if self.times_us == Interval():
            return given
        wanted = given or TimeRange()
        most = self.times_us.most
        from_us = [b for b in (wanted.from_us, self.times_us.least) if b is not None]
        before_us = [
            b for b in (wanted.before_us, None if most is None else most + 1) if b is not None
        ]
        return TimeRange(max(from_us, default=None), min(before_us, default=None))


FIELDS = {table.PARTITION: "partitions", table.OFFSET: "offsets", table.TIMESTAMP: "times_us"}


def narrowed(filters: Iterable[Filter]) -> Narrowed:
    """What is left by those filters that can narrow a plan; the others leave everything."""
    found = Narrowed()
    for each in filters:
        field = FIELDS.get(".".join(getattr(each, "attribute", ())))
        if field is not None:
            interval = _interval(each, getattr(found, field))
            found = replace(found, **{field: interval})
    return found


def _interval(found: Filter, interval: Interval) -> Interval:
    match found:
        case EqualTo(value=value) if (number := _number(value)) is not None:
            return interval.above(number).below(number)
        case In(value=values) if values and None not in map(_number, values):
            numbers = [number for value in values if (number := _number(value)) is not None]
            return interval.above(min(numbers)).below(max(numbers))
        case GreaterThan(value=value) if (number := _number(value)) is not None:
            return interval.above(number + 1)
        case GreaterThanOrEqual(value=value) if (number := _number(value)) is not None:
            return interval.above(number)
        case LessThan(value=value) if (number := _number(value)) is not None:
            return interval.below(number - 1)
        case LessThanOrEqual(value=value) if (number := _number(value)) is not None:
            return interval.below(number)
    return interval


def _number(value: Any) -> int | None:
    """The value of a filter as our columns have it; None for what is no whole number or time."""
    if isinstance(value, datetime):
        return microseconds(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
