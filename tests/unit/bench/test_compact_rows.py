"""Rows of the pipeline's benchmark: who gives them, and what they are held against."""

from __future__ import annotations

import pytest
from bench.compact.bounds import Bound
from bench.compact.rows import BY_ID, QUICK_ROWS, ROWS, wanted_rows
from bench.compact.suite import PARTS
from bench.errors import BenchError


def test_every_row_is_given_by_one_part() -> None:
    given = [row for part in PARTS for row in part.rows]
    assert sorted(given) == sorted(BY_ID)
    assert len(BY_ID) == len(ROWS)


def test_goals_are_against_the_peer_or_in_the_unit_of_the_row() -> None:
    for row in ROWS:
        for goal in row.goals:
            if isinstance(goal, Bound):
                assert goal.unit == row.unit
            else:
                assert goal.against == row.peer


def test_rows_are_chosen_by_pattern_or_beginning() -> None:
    assert wanted_rows(["lag-max"]) == {"lag-max"}
    assert wanted_rows(["memory"]) == {row for row in BY_ID if row.startswith("memory-")}
    assert wanted_rows(["compact-cpu-*-lz4"]) == {"compact-cpu-100b-lz4", "compact-cpu-1k-lz4"}
    assert wanted_rows([]) == set(BY_ID)
    assert wanted_rows([], quick=True) == QUICK_ROWS < set(BY_ID)
    assert wanted_rows(["memory-given"], quick=True) == {"memory-given"}
    with pytest.raises(BenchError, match="no row of compact is called 'lags'"):
        wanted_rows(["lags"])
