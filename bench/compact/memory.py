"""Memory of a round whose backlog is many times larger than it.

The same records, once four times as many: what the round needs must not grow with them. Before the
round, no worker may allocate more than a share of what is given on top of what it held after a
tiny backlog (RLIMIT_DATA), so a round that is not bounded fails.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from bench.compact.rows import QUARTER
from bench.compact.scale import Scale
from bench.compact.sessions import TowpathSession
from bench.results import Measurement
from bench.shared.fill import fill
from bench.shared.part import MB, Context, Part
from bench.shared.process_tree import DRIVER, JVM, TOTAL, WORKERS
from bench.shared.rows import TOWPATH
from bench.shared.shapes import Shape
from bench.systems import Towpath

SHAPE = Shape(1000, "none")
PARTS = (WORKERS, JVM, DRIVER, TOTAL)
FACTOR = 4
TINY_BYTES = 5_000_000
"""Less than a row group for each partition: what a worker holds after it is its base."""


class Memory(Part[Scale]):
    """Two backlogs, each with processes of its own."""

    rows = frozenset({*(f"memory-{part}" for part in PARTS), "memory-given"})

    def run(self, context: Context[Scale]) -> None:
        """The small backlog, then the large one."""
        scale = context.scale
        with context.attempt("memory"):
            for part, size_bytes in (
                (QUARTER, scale.memory_backlog_bytes // FACTOR),
                (TOWPATH, scale.memory_backlog_bytes),
            ):
                self._keep(context, part, _measure(context, size_bytes))

    def _keep(self, context: Context[Scale], system: str, told: dict[str, Any]) -> None:
        for part in PARTS:
            value = told["peak_bytes"][part] / MB
            context.keep(f"memory-{part}", system, Measurement(value, raw=told))
        if system == TOWPATH:
            share = told["backlog_bytes"] / context.scale.memory_given_bytes
            context.keep("memory-given", TOWPATH, Measurement(share, raw=told))


def _measure(context: Context[Scale], size_bytes: int) -> dict[str, Any]:
    directory = context.directory / f"memory-{size_bytes}"
    system = Towpath(directory, context.program)
    with contextlib.ExitStack() as stack:
        stack.callback(system.kill)
        system.process.start()
        log = directory / "compactor.log"
        session = stack.enter_context(TowpathSession(directory / "data", log))
        session.answer()
        tiny = fill(system, "tiny", SHAPE, TINY_BYTES)
        base = session.ask({"topic": tiny.topic, "records": tiny.records})
        filled = fill(system, "full", SHAPE, size_bytes)
        limit_bytes = base["worker_data_bytes"] + given_to_each(context.scale.memory_given_bytes)
        os.sync()
        told = session.ask(
            {
                "topic": filled.topic,
                "records": filled.records,
                "watch": True,
                "worker_data_bytes": limit_bytes,
            }
        )
    return {**told, "backlog_bytes": filled.size_bytes, "worker_limit_bytes": limit_bytes}


def given_to_each(given_bytes: int) -> int:
    """One worker's share: there are as many workers as cores."""
    return given_bytes // (os.cpu_count() or 1)
