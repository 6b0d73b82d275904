"""`towpath bench compact`: what it passes on, what it lists, and one real measurement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.compact.rows import ROWS
from bench.prepare import missing_packages

from towpath.cli.main import run

SMOKE_TIMEOUT_S = 280


def test_suite_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []

    class Process:
        def __init__(self, arguments: list[str], cwd: Path) -> None:
            called.append(arguments)

        def wait(self) -> int:
            return 3

    monkeypatch.setattr(subprocess, "Popen", Process)
    assert run(["bench", "compact", "--quick", "--only", "lag"]) == 3
    assert called[0][1:] == ["-m", "bench", "compact", "--quick", "--only", "lag"]


def test_rows_are_listed() -> None:
    done = call("--list")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(ROWS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nonsense"], "no row of compact is called 'nonsense'"),
        (["--runs", "0"], "--runs is between"),
    ],
)
def test_mistakes_get_one_line(arguments: list[str], message: str) -> None:
    done = call(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"towpath: {message}")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.needs_server
def test_one_shape_of_a_quick_run(tmp_path: Path) -> None:
    if missing_packages() and os.geteuid() != 0:
        pytest.skip(f"needs Debian packages: {missing_packages()}")
    done = call("--quick", "--only", "catch-up-1k-lz4", "--output", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / "compact.json").read_text())
    assert not told["failures"]
    assert set(told["rows"]["catch-up-1k-lz4"]) == {"towpath", "the same from WAL"}
    assert "fetch from Parquet, 1 KB records, lz4" in (tmp_path / "compact.md").read_text()


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "towpath", "bench", "compact", *arguments],
        capture_output=True,
        text=True,
        timeout=SMOKE_TIMEOUT_S,
        check=False,
    )
