"""Rows are chosen by pattern."""

from __future__ import annotations

import pytest
from bench.compact.rows import ROWS
from bench.errors import BenchError


def test_rows_are_chosen_by_pattern_or_beginning() -> None:
    assert ROWS.wanted(["lag-max"]) == {"lag-max"}
    assert ROWS.wanted(["memory"]) == {row for row in ROWS.by_id if row.startswith("memory-")}
    assert ROWS.wanted(["compact-cpu-*-lz4"]) == {"compact-cpu-100b-lz4", "compact-cpu-1k-lz4"}
    assert ROWS.wanted([]) == set(ROWS.by_id)
    assert ROWS.wanted([], quick=True) == set(ROWS.by_id) - {"memory-given"}
    assert ROWS.wanted(["memory-given"], quick=True) == {"memory-given"}
    with pytest.raises(BenchError, match="no row of compact is called 'lags'"):
        ROWS.wanted(["lags"])
