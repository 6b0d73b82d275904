"""Goals that are a number and not another system: a bound of the value itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.goals import Verdict
from bench.ratios import median


@dataclass(frozen=True)
class Bound:
    """At least `limit` where more is better, else at most; in the row's unit."""

    limit: float
    unit: str

    def text(self, higher_is_better: bool) -> str:
        """As the table shows it."""
        return f"{'≥' if higher_is_better else '≤'} {self.limit:g} {self.unit}"

    def judge(self, values: Mapping[int, float], higher_is_better: bool) -> Verdict | None:
        """Hold the bound against the values by run; None without any."""
        middle = median(values)
        if middle is None:
            return None
        met = middle >= self.limit if higher_is_better else middle <= self.limit
        return Verdict(met, min(values.values()) < self.limit < max(values.values()))
