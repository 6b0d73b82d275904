"""Places where a test may kill or stop the process: named steps of a flush.

With `TOWPATH_FAULT_POINT=<step>` in the environment the broker strikes itself when it reaches that
step for the `TOWPATH_FAULT_AFTER`-th time (default 1): with `TOWPATH_FAULT_ACTION=kill` (the
default) as `kill -9` would, with `stop` as `kill -STOP`, after which SIGCONT lets it go on from
there. It strikes once. The steps are `before-put`, `after-put` and `after-commit`; of a write by
Spark `sink-staged` (in a task), `sink-before-commit` and `sink-after-commit` (on the driver).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping

ACTIONS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def from_environment(
    environment: Mapping[str, str], strike: Callable[[int, int], None] = os.kill
) -> Callable[[str], None]:
    """What the log calls at each step; does nothing unless a fault point is set.

    `strike` gets this process's id and the signal.
    """
    wanted = environment.get("TOWPATH_FAULT_POINT")
    if not wanted:
        return _pass
    left = int(environment.get("TOWPATH_FAULT_AFTER", "1"))
    signal_number = ACTIONS[environment.get("TOWPATH_FAULT_ACTION", "kill")]

    def reached(step: str) -> None:
        nonlocal left
        if step == wanted:
            left -= 1
            if left == 0:
                strike(os.getpid(), signal_number)

    return reached


def _pass(step: str) -> None:
    del step
