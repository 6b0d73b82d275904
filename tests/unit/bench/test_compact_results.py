"""Ratios to the row's peer, and verdicts on both kinds of goals."""

from __future__ import annotations

import pytest
from bench.compact.rows import ROWS, TENTH
from bench.goals import Verdict
from bench.ratios import Ratio
from bench.results import Measurement
from bench.shared.bounds import Bound
from bench.shared.results import Results
from bench.shared.rows import KAFKA_SPARK, TOWPATH


def add(results: Results, row: str, system: str, *values: float) -> None:
    """A value of each run."""
    for run, value in enumerate(values):
        results.add(row, system, run, Measurement(value))


def test_ratio_to_the_peer_of_the_same_run() -> None:
    results = Results(ROWS, {}, {})
    row = ROWS.by_id["compact-1k-none"]
    add(results, row.id, TOWPATH, 100.0, 90.0)
    assert results.ratio(row) is None
    assert [verdict for _, verdict in results.verdicts(row)] == [None]
    add(results, row.id, KAFKA_SPARK, 20.0, 30.0)
    assert results.ratio(row) == Ratio(4.0, 3.0, 5.0)
    assert [verdict for _, verdict in results.verdicts(row)] == [Verdict(True, True)]


def test_less_is_better_for_commits() -> None:
    results = Results(ROWS, {}, {})
    row = ROWS.by_id["commit-1000"]
    add(results, row.id, TOWPATH, 41.0)
    add(results, row.id, TENTH, 20.0)
    assert [verdict for _, verdict in results.verdicts(row)] == [Verdict(False, False)]


def test_a_bound_holds_the_value_itself() -> None:
    assert Bound(100.0, "MB/CPU-s").judge({0: 100.0}, True) == Verdict(True, False)
    assert Bound(100.0, "MB/CPU-s").judge({0: 80.0, 1: 99.0, 2: 120.0}, True) == Verdict(
        False, True
    )
    assert Bound(10.0, "s").judge({0: 10.5}, False) == Verdict(False, False)
    assert Bound(10.0, "s").judge({}, False) is None
    assert Bound(10.0, "s").text(False) == "≤ 10 s"
    assert Bound(70.0, "MB/CPU-s").text(True) == "≥ 70 MB/CPU-s"


def test_goals_that_cannot_be_judged_do_not_count() -> None:
    results = Results(ROWS, {}, {})
    add(results, "compact-1k-none", TOWPATH, 100.0)
    add(results, "compact-cpu-1k-none", TOWPATH, 150.0)
    add(results, "lag-max", TOWPATH, 12.0)
    assert results.count_goals() == (1, 2)


def test_only_the_row_and_its_peer_have_values() -> None:
    with pytest.raises(AssertionError):
        Results(ROWS, {}, {}).add("compact-1k-none", TENTH, 0, Measurement(1.0))


def test_raw_is_that_of_the_first_run() -> None:
    results = Results(ROWS, {}, {})
    results.add("lag-max", TOWPATH, 1, Measurement(2.0, raw={"max_s": 2.0}))
    results.add("lag-max", TOWPATH, 0, Measurement(1.0, raw={"max_s": 1.0}))
    assert results.raw("lag-max") == {"max_s": 1.0}
    assert results.raw("lag-p50") == {}
