"""Places where a test may kill the process: named steps of a flush.

With `TOWPATH_FAULT_POINT=<step>` in the environment the broker kills itself, as `kill -9` would,
when it reaches that step for the `TOWPATH_FAULT_AFTER`-th time (default 1). The steps are
`before-put`, `after-put` and `after-commit`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping


def from_environment(environment: Mapping[str, str]) -> Callable[[str], None]:
    """What the log calls at each step; does nothing unless a fault point is set."""
    wanted = environment.get("TOWPATH_FAULT_POINT")
    if not wanted:
        return _pass
    left = int(environment.get("TOWPATH_FAULT_AFTER", "1"))

    def reached(step: str) -> None:
        nonlocal left
        if step == wanted:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return reached


def _pass(step: str) -> None:
    del step
