"""From the acknowledgement of a record to its being visible in the table.

`towpath up` with its defaults, ten topics that get records at a steady pace, and pyiceberg as any
reader uses it: a record is visible once a table that was loaded from the catalog tells, with its
current snapshot, an end offset above the record's.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.harness.towpath_process import TowpathProcess

from bench.compact.lag_samples import Lags
from bench.compact.part import Context, Part
from bench.compact.process_tree import tree_cpu_seconds
from bench.compact.rows import BROKER, MAX_AGE, TOWPATH
from bench.compact.steady import Steady
from bench.compact.watcher import Watcher, check_rows
from bench.errors import MeasurementFailed
from bench.results import Measurement
from towpath.config.settings import Settings
from towpath.lakehouse.iceberg.open import CATALOG_FILE

TOPICS = tuple(f"lag-{number}" for number in range(10))
RATE = 100
"""Records a second of each topic."""
WARM_COMMITS = 3
"""So many commits of each table come before the measurement."""
WARM_TIMEOUT_S = 240.0
SETTLE_TIMEOUT_S = 90.0
POLL_S = 0.1


class Lag(Part):
    """Ten active topics."""

    rows = frozenset({"lag-p50", "lag-p95", "lag-max", "lag-cpu"})

    def run(self, context: Context) -> None:
        """Produce and watch."""
        directory = context.make_directory("lag")
        towpath = TowpathProcess(directory, settings={"iceberg_enabled": "true"})
        with context.attempt("lag"), contextlib.ExitStack() as stack:
            stack.callback(towpath.kill)
            stack.callback(_stop, towpath)
            towpath.start()
            self._measure(context, towpath, stack)

    def _measure(
        self, context: Context, towpath: TowpathProcess, stack: contextlib.ExitStack
    ) -> None:
        catalog_file = towpath.data_dir / CATALOG_FILE
        watcher = Watcher(catalog_file, TOPICS)
        producer = Steady(towpath.bootstrap, TOPICS, RATE)
        stack.enter_context(watcher)
        stack.enter_context(producer)
        _wait(lambda: watcher.commits_min() >= WARM_COMMITS, WARM_TIMEOUT_S, "warm tables", towpath)
        cpu = _CpuShares(towpath)
        first_ns = time.monotonic_ns()
        time.sleep(context.scale.lag_seconds)
        last_ns = time.monotonic_ns()
        shares = cpu.until_now()
        lags = Lags(producer.acknowledged, first_ns, last_ns)
        _wait(lambda: lags.are_seen(watcher.seen), SETTLE_TIMEOUT_S, "records in tables", towpath)
        producer.check()
        watcher.check()
        check_rows(catalog_file, TOPICS[0], watcher.seen[TOPICS[0], 0][-1].end)
        self._keep(context, lags.seconds(watcher.seen), shares, towpath.data_dir)

    def _keep(
        self, context: Context, lags_s: list[float], shares: dict[str, float], data_dir: Path
    ) -> None:
        raw = summary(lags_s)
        for row, value in (("p50", raw["p50_s"]), ("p95", raw["p95_s"]), ("max", raw["max_s"])):
            context.keep(f"lag-{row}", TOWPATH, Measurement(value, raw=raw))
            context.keep(f"lag-{row}", MAX_AGE, Measurement(wal_max_age_s(data_dir)))
        context.keep("lag-cpu", TOWPATH, Measurement(shares["compactor"], raw=shares))
        context.keep("lag-cpu", BROKER, Measurement(shares["broker"]))


BIN_S = 0.25
"""Width of the histogram's bins."""


def summary(lags_s: list[float]) -> dict[str, Any]:
    """Percentiles of the lags, and how many fall into each bin of `BIN_S`."""
    if len(lags_s) < 2:
        raise MeasurementFailed("no record was acknowledged and seen")
    cuts = statistics.quantiles(lags_s, n=100, method="inclusive")
    counts = [0] * (int(max(lags_s) / BIN_S) + 1)
    for lag_s in lags_s:
        counts[int(lag_s / BIN_S)] += 1
    return {
        "records": len(lags_s),
        "p50_s": cuts[49],
        "p95_s": cuts[94],
        "p99_s": cuts[98],
        "max_s": max(lags_s),
        "bin_s": BIN_S,
        "histogram": counts,
    }


def wal_max_age_s(data_dir: Path) -> float:
    """The default setting: how long records stay out of the table at most, without the round."""
    return Settings(data_dir=data_dir).compaction_wal_max_age_ms / 1000


class _CpuShares:
    """CPU of the broker, and of the compactor with Spark, which are its descendants; in cores."""

    def __init__(self, towpath: TowpathProcess) -> None:
        self._broker = towpath.process.pid
        self._compactor = compactor_pid(towpath)
        self._started = time.monotonic()
        self._before_s = self._now_s()

    def until_now(self) -> dict[str, float]:
        """Since it was made."""
        took_s = time.monotonic() - self._started
        return {
            name: (now_s - self._before_s[name]) / took_s for name, now_s in self._now_s().items()
        }

    def _now_s(self) -> dict[str, float]:
        compactor_s = tree_cpu_seconds(self._compactor)
        return {
            "compactor": compactor_s,
            "broker": tree_cpu_seconds(self._broker) - compactor_s,
        }


def compactor_pid(towpath: TowpathProcess) -> int:
    """The only child of `up` with one broker."""
    children = towpath.process.descendants()
    if not children:
        raise MeasurementFailed(f"no compactor runs\n{towpath.process.log_tail()}")
    return children[0]


def _stop(towpath: TowpathProcess) -> None:
    """As a user does; what is left is killed next."""
    with contextlib.suppress(Exception):
        towpath.stop()


def _wait(look: Callable[[], bool], timeout_s: float, what: str, towpath: TowpathProcess) -> None:
    deadline = time.monotonic() + timeout_s
    while not look():
        if towpath.process.exit_code() is not None:
            raise MeasurementFailed(f"towpath ended\n{towpath.process.log_tail()}")
        if time.monotonic() > deadline:
            raise MeasurementFailed(
                f"no {what} within {timeout_s:.0f} s\n{towpath.process.log_tail()}"
            )
        time.sleep(POLL_S)
