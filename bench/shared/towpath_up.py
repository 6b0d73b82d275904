"""`towpath up` with its defaults, the compactor included, while something is measured."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.integration.harness.server_process import ServerProcess
from tests.integration.harness.towpath_process import TowpathProcess

from bench.errors import MeasurementFailed
from towpath.config.settings import Settings

POLL_S = 0.1


@contextlib.contextmanager
def towpath_up(directory: Path) -> Iterator[TowpathProcess]:
    """It runs while the context lasts, and ends as a user ends it; what is left is killed."""
    towpath = TowpathProcess(directory, settings={"iceberg_enabled": "true"})
    try:
        towpath.start()
        yield towpath
        with contextlib.suppress(Exception):
            towpath.stop()
    finally:
        towpath.kill()


def wait(look: Callable[[], bool], timeout_s: float, what: str, process: ServerProcess) -> None:
    """Until `look` says yes; MeasurementFailed when that takes too long or the process ends."""
    deadline = time.monotonic() + timeout_s
    while not look():
        if process.exit_code() is not None:
            raise MeasurementFailed(f"the broker ended\n{process.log_tail()}")
        if time.monotonic() > deadline:
            raise MeasurementFailed(f"no {what} within {timeout_s:.0f} s\n{process.log_tail()}")
        time.sleep(POLL_S)


def wal_max_age_s(data_dir: Path) -> float:
    """The default setting: how long records stay out of the table at most, without the round."""
    return Settings(data_dir=data_dir).compaction_wal_max_age_ms / 1000
