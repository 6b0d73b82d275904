"""Verdicts on goals."""

from __future__ import annotations

from bench.goals import Goal, Verdict, judge
from bench.ratios import Ratio


def exactly(value: float) -> Ratio:
    return Ratio(value, value, value)


def test_more_is_better() -> None:
    goal = Goal("kafka", 2.0)
    assert judge(goal, {"kafka": exactly(2.0)}, True) == Verdict(True, False)
    assert judge(goal, {"kafka": exactly(1.99)}, True) == Verdict(False, False)


def test_less_is_better() -> None:
    goal = Goal("kafka", 0.25)
    assert judge(goal, {"kafka": exactly(0.25)}, False) == Verdict(True, False)
    assert judge(goal, {"kafka": exactly(0.26)}, False) == Verdict(False, False)


def test_the_other_goal_will_do() -> None:
    goal = Goal("kafka", 1.0, otherwise=Goal("limit", 0.9))
    assert judge(goal, {"kafka": exactly(0.8), "limit": exactly(0.95)}, True) == Verdict(
        True, False
    )
    assert judge(goal, {"limit": exactly(0.95)}, True) == Verdict(True, False)
    assert judge(goal, {"kafka": exactly(0.8), "limit": exactly(0.5)}, True) == Verdict(
        False, False
    )
    assert judge(goal, {}, True) is None
    assert goal.text(True) == "≥ 1x kafka or ≥ 0.9x limit"


def test_single_runs_may_say_otherwise() -> None:
    verdict = judge(Goal("kafka", 1.0), {"kafka": Ratio(0.98, 0.9, 1.1)}, True)
    assert verdict is not None
    assert verdict.text == "not met (within the spread)"
    verdict = judge(Goal("kafka", 1.0), {"kafka": Ratio(1.02, 0.9, 1.1)}, True)
    assert verdict is not None
    assert verdict.text == "met (within the spread)"
