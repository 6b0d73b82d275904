"""What commits cost, with a real catalog."""

from __future__ import annotations

from pathlib import Path

from bench.compact.commit_costs import PacedClock, around, measure


def test_the_commits_that_stand_for_one() -> None:
    assert list(around(1)) == [1, 2, 3]
    assert list(around(10)) == list(range(5, 16))
    assert around(1000)[-1] == 1005


def test_clock_moves_by_hand() -> None:
    clock = PacedClock()
    before_ms = clock.now_ms()
    clock.pass_ms(5_000)
    assert clock.now_ms() == before_ms + 5_000 == clock.monotonic_ms()


async def test_every_commit_is_timed(tmp_path: Path) -> None:
    told = await measure(tmp_path, [1])
    assert len(told["times_ms"]) == 3
    found = told["points"][1]
    assert found["ms"] > 0
    assert found["tenth_ms"] > 0
    assert found["metadata"]["files"] < found["tenth_metadata"]["files"]
    assert found["metadata"]["bytes"] > 0
