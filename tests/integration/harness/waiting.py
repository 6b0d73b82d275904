"""Waiting for something to become true, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_INTERVAL_S = 0.02


class DeadlineExceeded(AssertionError):
    """What was waited for did not happen in time."""


def wait_until(
    look: Callable[[], T],
    what: str,
    *,
    timeout_s: float = 20.0,
    interval_s: float = POLL_INTERVAL_S,
) -> T:
    """The first true value of `look()`; DeadlineExceeded names `what` and the last value."""
    deadline = time.monotonic() + timeout_s
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() >= deadline:
            raise DeadlineExceeded(f"{what}: not within {timeout_s} s; last seen: {seen!r}")
        time.sleep(interval_s)
