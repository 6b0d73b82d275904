"""Fault points: which step, when, and how."""

from __future__ import annotations

import os
import signal

import pytest

from towpath import fault_points


def struck_by(environment: dict[str, str], *steps: str) -> list[tuple[int, int]]:
    struck: list[tuple[int, int]] = []
    reached = fault_points.from_environment(environment, lambda *args: struck.append(args))
    for step in steps:
        reached(step)
    return struck


def test_nothing_happens_without_a_fault_point() -> None:
    assert struck_by({}, "before-put", "after-put", "after-commit") == []


def test_it_strikes_once_at_the_wanted_time_of_the_wanted_step() -> None:
    wanted = {"TOWPATH_FAULT_POINT": "after-put", "TOWPATH_FAULT_AFTER": "2"}
    assert struck_by(wanted, "after-put", "before-put", "after-commit") == []
    assert struck_by(wanted, *["after-put"] * 5) == [(os.getpid(), signal.SIGKILL)]


@pytest.mark.parametrize(("action", "number"), [("kill", signal.SIGKILL), ("stop", signal.SIGSTOP)])
def test_the_action_decides_the_signal(action: str, number: int) -> None:
    wanted = {"TOWPATH_FAULT_POINT": "before-put", "TOWPATH_FAULT_ACTION": action}
    assert struck_by(wanted, "before-put") == [(os.getpid(), number)]
