"""`towpath bench compact`, `read` and `groups`: one real measurement of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.prepare import missing_packages

SMOKE_TIMEOUT_S = 280


@pytest.mark.slow
@pytest.mark.needs_server
def test_one_shape_of_a_quick_run(tmp_path: Path) -> None:
    if missing_packages() and os.geteuid() != 0:
        pytest.skip(f"needs Debian packages: {missing_packages()}")
    done = call("compact", "--quick", "--only", "catch-up-1k-lz4", "--output", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / "compact.json").read_text())
    assert not told["failures"]
    assert set(told["rows"]["catch-up-1k-lz4"]) == {"towpath", "the same from WAL"}
    assert "fetch from Parquet, 1 KB records, lz4" in (tmp_path / "compact.md").read_text()


@pytest.mark.slow
@pytest.mark.needs_server
def test_a_query_of_a_quick_run(tmp_path: Path) -> None:
    if missing_packages() and os.geteuid() != 0:
        pytest.skip(f"needs Debian packages: {missing_packages()}")
    done = call("read", "--quick", "--only", "sql-cold", "--output", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / "read.json").read_text())
    assert not told["failures"]
    assert set(told["rows"]["sql-cold"]) == {"towpath", "duckdb on the bare files"}
    assert "count of a million records" in (tmp_path / "read.md").read_text()


@pytest.mark.slow
@pytest.mark.needs_server
def test_groups_of_a_quick_run(tmp_path: Path) -> None:
    if missing_packages() and os.geteuid() != 0:
        pytest.skip(f"needs Debian packages: {missing_packages()}")
    rows = ["first-classic", "first-consumer", "heartbeats-classic", "heartbeats-consumer",
            "commits-consumer"]  # fmt: skip
    done = call("groups", "--quick", "--only", ",".join(rows), "--output", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / "groups.json").read_text())
    assert not told["failures"]
    assert all(set(told["rows"][row]) == {"towpath", "kafka"} for row in rows)
    assert "first assignment, consumer protocol" in (tmp_path / "groups.md").read_text()


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "towpath", "bench", *arguments],
        capture_output=True,
        text=True,
        timeout=SMOKE_TIMEOUT_S,
        check=False,
    )
