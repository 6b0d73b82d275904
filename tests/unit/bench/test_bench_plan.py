"""Order of the systems, choice of rows, and that cases and rows belong together."""

from __future__ import annotations

import pytest
from bench.cases import CASES
from bench.errors import BenchError
from bench.plan import STARTUP, rotated, wanted_rows
from bench.report.summary import SUMMARY_ROWS
from bench.rows import BY_ID, LIMIT, QUICK_ROWS, ROWS
from bench.systems import NAMES


def test_every_system_comes_first_in_turn() -> None:
    orders = [rotated(NAMES, run) for run in range(len(NAMES))]
    assert {order[0] for order in orders} == set(NAMES)
    assert all(sorted(order) == sorted(NAMES) for order in orders)
    assert rotated(NAMES, len(NAMES)) == list(NAMES)


def test_every_row_is_given_by_a_case() -> None:
    given = {row for case in CASES for row in case.rows} | {STARTUP}
    assert given == set(BY_ID)
    assert len(BY_ID) == len(ROWS)
    assert len({case.id for case in CASES}) == len(CASES)


def test_goals_name_what_the_case_measures() -> None:
    for case in CASES:
        for row in (BY_ID[row_id] for row_id in case.rows):
            for goal in row.goals:
                assert goal.against in case.systems or (goal.against == LIMIT and row.limit)


def test_summary_rows_exist() -> None:
    assert set(SUMMARY_ROWS) <= set(BY_ID)


def test_rows_are_chosen_by_pattern_or_beginning() -> None:
    assert wanted_rows(["unbatched"]) == {"unbatched"}
    assert wanted_rows(["latency-100"]) == {f"latency-100-{p}" for p in ("p50", "p99", "p999")}
    assert wanted_rows(["produce-*-lz4"]) == {
        f"produce-{record}-{batch}-lz4" for record in ("100b", "1k") for batch in ("16k", "1m")
    }
    assert wanted_rows([]) == set(BY_ID)
    assert wanted_rows([], quick=True) == QUICK_ROWS < set(BY_ID)
    assert wanted_rows(["partitions-2000"], quick=True) == {"partitions-2000"}
    with pytest.raises(BenchError, match="no row is called 'latencies'"):
        wanted_rows(["latencies"])
