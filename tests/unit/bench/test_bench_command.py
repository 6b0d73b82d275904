"""`towpath bench`: what it passes on, and one real measurement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.prepare import missing_packages
from bench.rows import ROWS

from towpath.cli import bench as command
from towpath.cli.errors import CliError
from towpath.cli.main import run

SMOKE_TIMEOUT_S = 280


def test_arguments_are_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called: list[list[str]] = []

    class Process:
        def __init__(self, arguments: list[str], cwd: Path) -> None:
            called.append(arguments)
            assert (cwd / "bench" / "__main__.py").is_file()

        def wait(self) -> int:
            return 7

    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.chdir(tmp_path)
    line = "bench --quick --only a,b --only c --runs 2 --output here"
    assert run(line.split()) == 7
    assert called[0][1:] == [
        "-m", "bench", "--quick", "--only", "a,b", "--only", "c", "--runs", "2",
        "--output", str(tmp_path / "here"),
    ]  # fmt: skip


def test_only_in_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed = tmp_path / "lib" / "site-packages" / "towpath" / "cli" / "bench.py"
    monkeypatch.setattr(command, "__file__", str(installed))
    with pytest.raises(CliError, match="checkout only") as caught:
        command.checkout()
    assert caught.value.exit_code == 2


def test_rows_are_listed() -> None:
    done = call("--list")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(ROWS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nonsense"], "no row is called 'nonsense'"),
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
def test_one_row_of_a_quick_run(tmp_path: Path) -> None:
    if missing_packages() and os.geteuid() != 0:
        pytest.skip(f"needs Debian packages: {missing_packages()}")
    done = call("--quick", "--only", "latency-1000", "--output", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / "results.json").read_text())
    assert not told["failures"]
    assert set(told["rows"]["latency-1000-p99"]) == {"towpath", "kafka", "kafka-flush"}
    assert told["rows"]["latency-1000-p50"]["towpath"]["0"]["raw"]["count"] == 1500
    assert "three_syncs_us" in told["limits"]
    assert "produce latency p99 at 1,000/s" in (tmp_path / "results.md").read_text()


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "towpath", "bench", *arguments],
        capture_output=True,
        text=True,
        timeout=SMOKE_TIMEOUT_S,
        check=False,
    )
