"""The limits are measured and leave nothing behind."""

from __future__ import annotations

from pathlib import Path

from bench import limits


def test_every_limit_is_measured(tmp_path: Path) -> None:
    found = limits.measure(tmp_path / "work", 0.001)
    assert set(found) == set(limits.DESCRIPTIONS)
    assert all(value > 0 for value in found.values())
    assert found["synced_write_mb_s"] == max(found["append_1mb_mb_s"], found["files_8mb_mb_s"])
    assert list((tmp_path / "work").iterdir()) == []


def test_repeat_works_at_least_once() -> None:
    calls: list[int] = []
    assert len(limits.repeat(lambda: calls.append(1), 0.0)) == len(calls) == 1
