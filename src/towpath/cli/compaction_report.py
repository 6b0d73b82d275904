"""How compaction shows itself: a bar while it works, a table or log lines of what it did."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import structlog

from towpath.cli.errors import say
from towpath.cli.output import Output, table

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from towpath.lakehouse.pipeline import RoundSummary, TopicSummary
    from towpath.lakehouse.plan import Job, JobResult

MB = 1_000_000
COLUMNS = ("topic", "tasks", "records", "input MB", "MB/s", "files", "file MB", "snapshot")

logger = structlog.get_logger("towpath.compactor")


class RoundProgress:
    """A progress bar per topic on a terminal, nothing elsewhere. A context manager."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._bars: dict[str, TaskID] = {}
        self._topics: dict[str, str] = {}
        self._display: Progress | None = None
        self.elapsed_seconds = 0.0

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        if sys.stderr.isatty():
            self._display = _display()
            self._display.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.elapsed_seconds = time.monotonic() - self._started
        if self._display is not None:
            self._display.stop()

    def planned(self, jobs: Sequence[Job]) -> None:
        """These jobs will be run."""
        sizes: dict[str, int] = {}
        for job in jobs:
            self._topics[job.task_id] = job.topic
            sizes[job.topic] = sizes.get(job.topic, 0) + job.input_bytes
        if self._display is None:
            return
        for topic, size_bytes in sizes.items():
            self._bars[topic] = self._display.add_task(
                topic, total=max(size_bytes, 1), rows=0, files=0
            )

    def __call__(self, result: JobResult) -> None:
        """One of them has ended."""
        if self._display is None:
            return
        bar = self._bars[self._topics[result.task_id]]
        fields = self._display.tasks[bar].fields
        self._display.update(
            bar,
            advance=result.input_bytes,
            rows=fields["rows"] + result.record_count,
            files=fields["files"] + len(result.files),
        )


def _display() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("{task.fields[rows]} rows, {task.fields[files]} files"),
        console=Console(stderr=True),
    )


def show_summary(summary: RoundSummary, seconds: float, output: Output) -> None:
    """What a round did, per topic; its failures as lines on stderr."""
    if output is Output.JSON:
        print(json.dumps(_as_json(summary, seconds)))
    elif summary.topics:
        rows = [_row(name, topic, seconds) for name, topic in sorted(summary.topics.items())]
        table(COLUMNS, rows)
    else:
        print("nothing to compact")
    for failure in summary.failures:
        say(f"failed: {failure}")


def log_round(summary: RoundSummary) -> None:
    """A log line per topic whose table got something."""
    for name, topic in sorted(summary.topics.items()):
        if not topic.tasks:
            continue
        logger.info(
            "compacted",
            topic=name,
            tasks=topic.tasks,
            records=topic.records,
            input_bytes=topic.input_bytes,
            files=topic.files,
            file_bytes=topic.file_bytes,
            snapshot=topic.snapshot_id,
        )


def _row(name: str, topic: TopicSummary, seconds: float) -> list[str]:
    speed = topic.input_bytes / MB / seconds if seconds else 0.0
    return [
        name,
        str(topic.tasks),
        str(topic.records),
        f"{topic.input_bytes / MB:.1f}",
        f"{speed:.1f}",
        str(topic.files),
        f"{topic.file_bytes / MB:.1f}",
        str(topic.snapshot_id or "-"),
    ]


def _as_json(summary: RoundSummary, seconds: float) -> dict[str, object]:
    return {
        "seconds": round(seconds, 3),
        "workerCpuSeconds": round(summary.cpu_seconds, 3),
        "more": summary.more,
        "failures": summary.failures,
        "topics": [
            {
                "topic": name,
                "tasks": topic.tasks,
                "records": topic.records,
                "inputBytes": topic.input_bytes,
                "files": topic.files,
                "fileBytes": topic.file_bytes,
                "snapshotId": topic.snapshot_id,
            }
            for name, topic in sorted(summary.topics.items())
        ],
    }
