"""What holds for every suite: who gives its rows, what they are held against, and its command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.compact.suite import SUITE as COMPACT
from bench.groups.suite import SUITE as GROUPS
from bench.read.suite import SUITE as READ
from bench.shared.bounds import Bound
from bench.shared.suite import Suite

from towpath.cli.main import run

TIMEOUT_S = 60


@pytest.fixture(params=[COMPACT, READ, GROUPS], ids=lambda suite: suite.rows.suite)
def suite(request: pytest.FixtureRequest) -> Suite[Any]:
    """Each of them."""
    found: Suite[Any] = request.param
    return found


def test_every_row_is_given_by_one_part(suite: Suite[Any]) -> None:
    given = [row for part in suite.parts for row in part.rows]
    assert sorted(given) == sorted(suite.rows.by_id)
    assert len(suite.rows.by_id) == len(suite.rows.all)


def test_goals_are_against_the_peer_or_in_the_unit_of_the_row(suite: Suite[Any]) -> None:
    for row in suite.rows.all:
        for goal in row.goals:
            if isinstance(goal, Bound):
                assert goal.unit == row.unit
            else:
                assert goal.against == row.peer


def test_a_quick_run_does_no_more_than_a_full_one(suite: Suite[Any]) -> None:
    full = suite.full.to_json()
    assert all(value <= full[name] for name, value in suite.quick.to_json().items())


def test_suite_is_passed_on(suite: Suite[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []

    class Process:
        def __init__(self, arguments: list[str], cwd: Path) -> None:
            called.append(arguments)

        def wait(self) -> int:
            return 3

    monkeypatch.setattr(subprocess, "Popen", Process)
    name = suite.rows.suite
    assert run(["bench", name, "--quick", "--only", "lag"]) == 3
    assert called[0][1:] == ["-m", "bench", name, "--quick", "--only", "lag"]


def test_rows_are_listed(suite: Suite[Any]) -> None:
    done = call(suite, "--list")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(suite.rows.all)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nonsense"], "no row of {suite} is called 'nonsense'"),
        (["--runs", "0"], "--runs is between"),
    ],
)
def test_mistakes_get_one_line(suite: Suite[Any], arguments: list[str], message: str) -> None:
    done = call(suite, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"towpath: {message.format(suite=suite.rows.suite)}")
    assert done.stderr.count("\n") == 1


def call(suite: Suite[Any], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "towpath", "bench", suite.rows.suite, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
