"""Lags: acknowledged records joined with what tables were seen to hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.compact.commit_costs import GrowingTable, opened
from bench.errors import MeasurementFailed
from bench.shared.lag_samples import BIN_S, Acknowledged, Lags, Seen, summary
from bench.shared.watcher import Watcher, check_rows
from tests.integration.harness.waiting import wait_until

S = 1_000_000_000
ACKNOWLEDGED = [Acknowledged("a", 0, offset, offset * S) for offset in range(6)]


def test_a_record_is_visible_with_the_first_table_that_holds_it() -> None:
    lags = Lags(ACKNOWLEDGED, 1 * S, 5 * S)
    seen = {("a", 0): [Seen(2, 4 * S), Seen(4, 7 * S), Seen(9, 11 * S)]}
    assert lags.are_seen(seen)
    assert lags.seconds(seen) == [3.0, 5.0, 4.0, 7.0]


def test_records_that_are_not_seen_yet() -> None:
    lags = Lags(ACKNOWLEDGED, 0, 3 * S)
    assert not lags.are_seen({})
    assert not lags.are_seen({("a", 0): [Seen(2, 9 * S)]})
    assert lags.are_seen({("a", 0): [Seen(3, 9 * S)]})


def test_a_table_seen_before_the_answer_counts_as_no_lag() -> None:
    lags = Lags([Acknowledged("a", 0, 0, 5 * S)], 0, 9 * S)
    assert lags.seconds({("a", 0): [Seen(1, 4 * S)]}) == [0.0]


def test_summary() -> None:
    told = summary([tenth / 10 for tenth in range(101)])
    assert (told["p50_s"], told["p95_s"], told["max_s"]) == (5.0, 9.5, 10.0)
    assert sum(told["histogram"]) == told["records"] == 101
    assert len(told["histogram"]) == 10 / BIN_S + 1
    with pytest.raises(MeasurementFailed):
        summary([])


async def test_watcher_sees_what_a_table_holds(tmp_path: Path) -> None:
    async with opened(tmp_path) as stores:
        table = GrowingTable(stores)
        await table.open("orders", 1)
        with Watcher(stores.catalog_file, ("orders",)) as watcher:
            await table.grow_to(2)
            wait_until(lambda: watcher.seen.get(("orders", 0)), "the table seen")
            wait_until(lambda: watcher.seen["orders", 0][-1].end == 200, "all of it seen")
            assert watcher.commits_min() >= 1
            watcher.check()
        check_rows(stores.catalog_file, "orders", 200)
        with pytest.raises(MeasurementFailed, match="every offset below 201"):
            check_rows(stores.catalog_file, "orders", 201)


def test_watcher_tells_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "catalog.sqlite"
    file.write_bytes(b"no database" * 1000)
    with Watcher(file, ("orders",)) as watcher:
        wait_until(lambda: watcher.failure, "a failure")
        with pytest.raises(MeasurementFailed, match="the catalog cannot be read"):
            watcher.check()
