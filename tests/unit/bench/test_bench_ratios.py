"""Ratios within runs, medians over runs."""

from __future__ import annotations

import pytest
from bench.ratios import Ratio, median, ratio, spread


def test_ratio_is_taken_within_each_run() -> None:
    # The medians of both sides would give 2.0; run by run it is 4, 1 and 3.
    assert ratio({0: 40.0, 1: 20.0, 2: 15.0}, {0: 10.0, 1: 20.0, 2: 5.0}) == Ratio(3.0, 1.0, 4.0)


def test_runs_that_one_side_lacks_do_not_count() -> None:
    assert ratio({0: 10.0, 1: 99.0}, {0: 5.0}) == Ratio(2.0, 2.0, 2.0)
    assert ratio({0: 10.0}, {1: 5.0}) is None
    assert ratio({0: 10.0}, {0: 0.0}) is None


def test_median_and_spread() -> None:
    assert median({0: 3.0, 1: 1.0, 2: 2.0}) == 2.0
    assert median({}) is None
    assert spread({0: 90.0, 1: 100.0, 2: 120.0}) == pytest.approx(0.3)
    assert spread({}) is None
    assert spread({0: 0.0}) is None
