"""`towpath soak` itself: a short one in the test command, the long one by flag."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.integration.harness.towpath_process import REPOSITORY

pytestmark = pytest.mark.needs_server


def soak(directory: Path, *flags: str) -> dict[str, Any]:
    """Run a soak and return its summary; what it says on the way is shown on failure."""
    path = os.pathsep.join([str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "towpath", "soak", "--output", "json"]
    done = subprocess.run(
        [*command, "--data-dir", str(directory / "soak"), *flags],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=False,
    )
    summary: dict[str, Any] = json.loads(done.stdout)
    assert summary["problems"] == []
    assert done.returncode == 0
    return summary


def test_a_short_soak_with_kills_adds_up(tmp_path: Path) -> None:
    flags = ["--minutes", "0.27", "--kill-every-seconds", "5", "--records-per-second", "3000"]
    summary = soak(tmp_path, *flags)
    assert summary["kills"] >= 2
    assert summary["acknowledged"] > 10_000
    assert summary["unacknowledged"] == 0
    assert summary["data_bytes"] > 100 * summary["acknowledged"] // 2


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_five_minutes_at_twenty_thousand_records_a_second_add_up(tmp_path: Path) -> None:
    summary = soak(tmp_path, "--minutes", "5", "--records-per-second", "20000")
    assert summary["kills"] >= 20
    assert summary["acknowledged"] > 1_000_000
