"""Goals: what a row should reach against another system or a limit of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.ratios import Ratio


@dataclass(frozen=True)
class Goal:
    """A bound of the ratio to `against`: at least `factor` where more is better, else at most.

    `otherwise` is another goal that will do as well.
    """

    against: str
    factor: float
    otherwise: Goal | None = None

    def text(self, higher_is_better: bool) -> str:
        """As the table shows it."""
        sign = "≥" if higher_is_better else "≤"
        mine = f"{sign} {self.factor:g}x {self.against}"
        if self.otherwise is None:
            return mine
        return f"{mine} or {self.otherwise.text(higher_is_better)}"


@dataclass(frozen=True)
class Verdict:
    """Whether a goal was reached; `in_spread` when single runs say otherwise than the median."""

    met: bool
    in_spread: bool

    @property
    def text(self) -> str:
        """As the table shows it."""
        word = "met" if self.met else "not met"
        return f"{word} (within the spread)" if self.in_spread else word


def judge(goal: Goal, ratios: Mapping[str, Ratio], higher_is_better: bool) -> Verdict | None:
    """Hold a goal against the measured ratios; None when what it needs was not measured."""
    verdicts = []
    part: Goal | None = goal
    while part is not None:
        ratio = ratios.get(part.against)
        if ratio is not None:
            verdicts.append(_judge_one(part.factor, ratio, higher_is_better))
        part = part.otherwise
    if not verdicts:
        return None
    met = [verdict for verdict in verdicts if verdict.met]
    return met[0] if met else Verdict(False, any(verdict.in_spread for verdict in verdicts))


def _judge_one(factor: float, ratio: Ratio, higher_is_better: bool) -> Verdict:
    met = ratio.median >= factor if higher_is_better else ratio.median <= factor
    return Verdict(met, ratio.low < factor < ratio.high)
