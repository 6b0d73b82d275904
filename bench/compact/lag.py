"""From the acknowledgement of a record to its being visible in the table.

`towpath up` with its defaults, ten topics that get records at a steady pace, and pyiceberg as any
reader uses it: a record is visible once a table that was loaded from the catalog tells, with its
current snapshot, an end offset above the record's.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from tests.integration.harness.towpath_process import TowpathProcess

from bench.compact.rows import BROKER
from bench.compact.scale import Scale
from bench.errors import MeasurementFailed
from bench.results import Measurement
from bench.shared.lag_samples import Lags, summary
from bench.shared.part import Context, Part
from bench.shared.process_tree import tree_cpu_seconds
from bench.shared.rows import MAX_AGE, TOWPATH
from bench.shared.steady import Steady
from bench.shared.towpath_up import towpath_up, wait, wal_max_age_s
from bench.shared.watcher import Watcher, check_rows
from towpath.lakehouse.iceberg.open import CATALOG_FILE

TOPICS = tuple(f"lag-{number}" for number in range(10))
RATE = 100
"""Records a second of each topic."""
WARM_COMMITS = 3
"""So many commits of each table come before the measurement."""
WARM_TIMEOUT_S = 240.0
SETTLE_TIMEOUT_S = 90.0


class Lag(Part[Scale]):
    """Ten active topics."""

    rows = frozenset({"lag-p50", "lag-p95", "lag-max", "lag-cpu"})

    def run(self, context: Context[Scale]) -> None:
        """Produce and watch."""
        directory = context.make_directory("lag")
        with context.attempt("lag"), contextlib.ExitStack() as stack:
            self._measure(context, stack.enter_context(towpath_up(directory)), stack)

    def _measure(
        self, context: Context[Scale], towpath: TowpathProcess, stack: contextlib.ExitStack
    ) -> None:
        catalog_file = towpath.data_dir / CATALOG_FILE
        watcher = Watcher(catalog_file, TOPICS)
        producer = Steady(towpath.bootstrap, TOPICS, RATE)
        stack.enter_context(watcher)
        stack.enter_context(producer)
        wait(
            lambda: watcher.commits_min() >= WARM_COMMITS,
            WARM_TIMEOUT_S,
            "warm tables",
            towpath.process,
        )
        cpu = _CpuShares(towpath)
        first_ns = time.monotonic_ns()
        time.sleep(context.scale.lag_seconds)
        last_ns = time.monotonic_ns()
        shares = cpu.until_now()
        lags = Lags(producer.acknowledged, first_ns, last_ns)
        wait(
            lambda: lags.are_seen(watcher.seen),
            SETTLE_TIMEOUT_S,
            "records in tables",
            towpath.process,
        )
        producer.check()
        watcher.check()
        check_rows(catalog_file, TOPICS[0], watcher.seen[TOPICS[0], 0][-1].end)
        self._keep(context, lags.seconds(watcher.seen), shares, towpath.data_dir)

    def _keep(
        self, context: Context[Scale], lags_s: list[float], shares: dict[str, float], data_dir: Path
    ) -> None:
        raw = summary(lags_s)
        for row, value in (("p50", raw["p50_s"]), ("p95", raw["p95_s"]), ("max", raw["max_s"])):
            context.keep(f"lag-{row}", TOWPATH, Measurement(value, raw=raw))
            context.keep(f"lag-{row}", MAX_AGE, Measurement(wal_max_age_s(data_dir)))
        context.keep("lag-cpu", TOWPATH, Measurement(shares["compactor"], raw=shares))
        context.keep("lag-cpu", BROKER, Measurement(shares["broker"]))


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
