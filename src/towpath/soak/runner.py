"""Runs a soak: load, kills, drain, reconciliation."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towpath.soak.child import Child, ChildFailed
from towpath.soak.cluster import START_TIMEOUT_S, Cluster, ClusterFailed
from towpath.soak.plan import Plan
from towpath.soak.process_size import ProcessSize, directory_bytes
from towpath.soak.reconcile import Books, books_of, failed_of, reconcile
from towpath.soak.report import BrokerSizes, Report

TICK_S = 0.2
PROGRESS_EVERY_S = 3.0
DRAIN_TIMEOUT_S = 120.0
"""For the producers to have everything acknowledged once nobody is killed any more."""
READ_TIMEOUT_S = 120.0
READ_RECORDS_PER_SECOND_MIN = 5_000
"""A pass gets `READ_TIMEOUT_S` and what it takes at this rate."""
SLOW_READER_SHARE = 0.5
"""The slow reader's part of the load's rate."""
SETTLE_TIMEOUT_S = 15.0
SETTLE_EVERY_S = 1.0
SETTLED_BYTES = 1 << 20
"""A broker whose memory changes by less between two looks has settled."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a soak is."""

    elapsed_s: float
    records_per_second: float
    acknowledged: int
    lag: int
    kills: int
    errors: int
    phase: str


class Soak:
    """One soak on one data directory."""

    def __init__(self, plan: Plan, data_dir: Path, show: Callable[[Progress], None]) -> None:
        self._plan = plan
        self._show = show
        self._cluster = Cluster(plan, data_dir / "data", data_dir / "brokers.log")
        self._report = Report(data_dir=str(data_dir))
        self._producers: list[Child] = []
        self._consumers: list[Child] = []
        self._peaks = [ProcessSize(0, 0)] * plan.brokers
        self._chance = random.Random(plan.seed)
        self._started_s = 0.0
        self._shown_at_s = 0.0
        self._shown_acknowledged = 0

    def run(self) -> Report:
        """The whole soak; what goes wrong is in the report's problems."""
        with ExitStack() as stack:
            stack.callback(self._cluster.end)
            try:
                self._run(stack)
            except (ChildFailed, ClusterFailed) as failure:
                self._report.problems.append(str(failure))
            self._note_clients()
        self._report.kills = self._cluster.kills
        return self._report

    def _run(self, stack: ExitStack) -> None:
        self._cluster.start()
        self._cluster.create_topic(self._plan.partitions)
        before = self._settled_sizes()
        self._start_clients(stack)
        self._load()
        books, ends = self._drain()
        self._reconcile(stack, books, ends)
        after = self._settled_sizes()
        self._note_sizes(after)
        self._report.brokers = [
            BrokerSizes(*sizes) for sizes in zip(before, self._peaks, after, strict=True)
        ]
        for number, broker in enumerate(self._report.brokers, 1):
            self._report.problems += broker.problems(number)
        self._report.problems += self._cluster.stop()
        self._report.data_bytes = directory_bytes(self._cluster.data_dir)

    # Load

    def _start_clients(self, stack: ExitStack) -> None:
        plan = self._plan
        given = {"bootstrap": self._cluster.bootstrap, "plan": plan.to_dict()}
        slow = max(1, int(plan.records_per_second * SLOW_READER_SHARE))
        self._consumers = [
            self._child(stack, "tailing consumer", "consumer", given),
            self._child(
                stack, "slow consumer", "consumer", {**given, "records_per_second_max": slow}
            ),
        ]
        self._producers = [
            self._child(stack, f"producer {n}", "producer", {**given, "number": n})
            for n in range(plan.producers)
        ]

    def _child(self, stack: ExitStack, name: str, module: str, given: dict[str, Any]) -> Child:
        child = Child(name, module, given)
        stack.callback(child.end)
        return child

    def _load(self) -> None:
        """Let the clients work, and kill a broker now and then."""
        self._started_s = self._shown_at_s = time.monotonic()
        every_s = self._plan.kill_every_seconds
        next_kill_s = self._started_s + every_s if every_s else float("inf")
        end_s = self._started_s + self._plan.seconds
        while (now_s := time.monotonic()) < end_s:
            if now_s >= next_kill_s and self._kill_one():
                next_kill_s += every_s
            self._tick("load")
        self._report.seconds = time.monotonic() - self._started_s
        acknowledged = self._acknowledged()
        self._report.records_per_second = acknowledged / self._report.seconds

    def _kill_one(self) -> bool:
        """Kill a broker that serves, if one does; never one that has not come back yet."""
        ready = [i for i in range(self._cluster.brokers) if self._cluster.is_ready(i)]
        if ready:
            self._cluster.kill(self._chance.choice(ready))
        return bool(ready)

    def _tick(self, phase: str) -> None:
        time.sleep(TICK_S)
        for child in (*self._producers, *self._consumers):
            if (failure := child.failure()) is not None:
                raise ChildFailed(failure)
            if fatal := child.last.get("fatal"):
                raise ChildFailed(f"the {child.name} cannot go on: {fatal}")
        self._note_sizes(self._cluster.sizes())
        now_s = time.monotonic()
        if now_s - self._shown_at_s >= PROGRESS_EVERY_S:
            self._show(self._progress(now_s, phase))
            self._shown_at_s, self._shown_acknowledged = now_s, self._acknowledged()

    def _note_sizes(self, sizes: list[ProcessSize]) -> None:
        self._peaks = [
            ProcessSize(*map(max, zip(peak, size, strict=True)))
            for peak, size in zip(self._peaks, sizes, strict=True)
        ]

    def _progress(self, now_s: float, phase: str) -> Progress:
        acknowledged = self._acknowledged()
        read = self._consumers[0].last.get("read", 0)
        return Progress(
            now_s - self._started_s,
            (acknowledged - self._shown_acknowledged) / (now_s - self._shown_at_s),
            acknowledged,
            max(0, acknowledged - read),
            self._cluster.kills,
            sum(self._errors().values()),
            phase,
        )

    def _acknowledged(self) -> int:
        return sum(child.last.get("acknowledged", 0) for child in self._producers)

    def _errors(self) -> Counter[str]:
        errors: Counter[str] = Counter()
        for child in (*self._producers, *self._consumers):
            errors.update(child.last.get("errors", {}))
        return errors

    # The end

    def _drain(self) -> tuple[Books, dict[int, int]]:
        """Everything acknowledged, everything read by those who were reading."""
        self._cluster.wait_ready(time.monotonic() + START_TIMEOUT_S)
        for producer in self._producers:
            producer.ask({"stop": True})
        deadline_s = time.monotonic() + DRAIN_TIMEOUT_S
        books = books_of([producer.final(deadline_s) for producer in self._producers])
        ends = self._cluster.ends(self._plan.partitions)
        for consumer in self._consumers:
            consumer.ask({"ends": ends})
        self._report.acknowledged = sum(written.acknowledged for written in books.values())
        self._report.unacknowledged = sum(len(written.failed) for written in books.values())
        return books, ends

    def _reconcile(self, stack: ExitStack, books: Books, ends: dict[int, int]) -> None:
        given = {"bootstrap": self._cluster.bootstrap, "plan": self._plan.to_dict()}
        verifier = self._child(stack, "verification", "consumer", {**given, "knowing": True})
        failed = [
            {"producer": producer, "partition": partition, "failed": sorted(sequences)}
            for (producer, partition), sequences in failed_of(books).items()
        ]
        verifier.ask({"ends": ends, "failed": failed})
        patience_s = READ_TIMEOUT_S + sum(ends.values()) / READ_RECORDS_PER_SECOND_MIN
        deadline_s = time.monotonic() + patience_s
        passes = {consumer.name: consumer.final(deadline_s) for consumer in self._consumers}
        self._report.problems += reconcile(books, ends, verifier.final(deadline_s), passes)

    def _note_clients(self) -> None:
        self._report.errors = dict(self._errors())
        self._report.producer_longest_stall_s = _longest_stall(self._producers)
        self._report.consumer_longest_stall_s = _longest_stall(self._consumers)

    def _settled_sizes(self) -> list[ProcessSize]:
        """The brokers' sizes once they change no more (they warm up in the background)."""
        deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
        sizes = self._cluster.sizes()
        while time.monotonic() < deadline_s:
            time.sleep(SETTLE_EVERY_S)
            earlier, sizes = sizes, self._cluster.sizes()
            pairs = zip(earlier, sizes, strict=True)
            if all(abs(a.rss_bytes - b.rss_bytes) < SETTLED_BYTES for a, b in pairs):
                break
        return sizes


def _longest_stall(children: list[Child]) -> float:
    return max((child.last.get("longest_stall_s", 0.0) for child in children), default=0.0)
