"""A process that compacts when it is told to: `python -m bench.compact.towpath_round DATA_DIR`.

Each question is `{"topic": ..., "records": ...}`: rounds are run until so many records of the topic
are in its table. The pipeline has its default settings. The answer has the wall clock, and the CPU
time of this process, Spark's JVM and its Python workers. With `"watch"` it has their peak memory,
and with `"worker_data_bytes"` no worker may allocate more than that.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from bench.shared.answering import failure, next_question, take_stdout
from bench.shared.process_tree import (
    WORKERS,
    PeakMemory,
    cpu_seconds_by_role,
    data_bytes,
    processes_of,
)
from towpath.compactor import Compactor
from towpath.config.settings import Settings
from towpath.lakehouse.rounds import RoundSummary
from towpath.observe import logging

ROUNDS_MAX = 50


class RoundFailed(Exception):
    """A round left something undone."""


async def main(data_dir: Path) -> None:
    """Answer until stdin ends."""
    answer = take_stdout()
    settings = Settings(data_dir=data_dir, compaction_http_port=0)
    logging.configure("warning", "console")
    compactor = Compactor(settings)
    await compactor.start(everything_is_due=True)
    try:
        answer({"ready": True})
        while (question := await asyncio.to_thread(next_question)) is not None:
            try:
                answer(await _measure(compactor, question))
            except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it.
                answer(failure(error))
    finally:
        await compactor.stop()


async def _measure(compactor: Compactor, question: dict[str, Any]) -> dict[str, Any]:
    own = os.getpid()
    if limit_bytes := question.get("worker_data_bytes"):
        limit_workers(own, limit_bytes)
    watched = PeakMemory(own) if question.get("watch") else None
    with watched or contextlib.nullcontext():
        before_s, started = cpu_seconds_by_role(own), time.monotonic()
        summaries = await _compact(compactor, question["topic"], question["records"])
        seconds = time.monotonic() - started
        cpu_s = {role: s - before_s[role] for role, s in cpu_seconds_by_role(own).items()}
    topics = [summary.of(question["topic"]) for summary in summaries]
    return {
        "seconds": seconds,
        "cpu_seconds": sum(cpu_s.values()),
        "cpu_seconds_by_role": cpu_s,
        "job_cpu_seconds": sum(summary.cpu_seconds for summary in summaries),
        "rounds": len(summaries),
        "tasks": sum(topic.tasks for topic in topics),
        "files": sum(topic.files for topic in topics),
        "file_bytes": sum(topic.file_bytes for topic in topics),
        "records": sum(topic.records for topic in topics),
        "peak_bytes": watched.by_role if watched else {},
        "worker_data_bytes": max(map(data_bytes, _workers(own)), default=0),
    }


async def _compact(compactor: Compactor, topic: str, records: int) -> list[RoundSummary]:
    """Rounds until the topic's records are done; RoundFailed if they cannot be."""
    summaries: list[RoundSummary] = []
    done = 0
    while done < records:
        summary = await compactor.run_once()
        summaries.append(summary)
        if summary.failures:
            raise RoundFailed(summary.failures[0])
        done += summary.of(topic).records
        if not summary.tasks or len(summaries) >= ROUNDS_MAX:
            raise RoundFailed(f"{done} of {records} records after {len(summaries)} rounds")
    if done > records:
        raise RoundFailed(f"{done} records compacted, {records} were produced")
    return summaries


def _workers(own: int) -> list[int]:
    return [process.pid for process in processes_of(own) if process.role == WORKERS]


def limit_workers(own: int, limit_bytes: int) -> None:
    """Bound what each Python worker, and each one that is forked later, may allocate."""
    for pid in _workers(own):
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_DATA, (limit_bytes, limit_bytes))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
