"""How compaction shows itself while it works: bars on a terminal, or log lines."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import structlog

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from towpath.lakehouse.plan import Job, JobProgress, JobResult

MB = 1_000_000
LOG_PAUSE_S = 10.0
"""Between two lines about a round that goes on."""

logger = structlog.get_logger("towpath.compactor")


class _Running:
    """How far one job has come."""

    def __init__(self, job: Job) -> None:
        self.topic = job.topic
        self.total_bytes = job.input_bytes
        self._offsets = max(job.end - job.start, 1)
        self._parts: dict[int, JobProgress] = {}
        self.done_bytes = 0
        self.records = 0
        self.files = 0

    def advance(self, progress: JobProgress) -> None:
        """Its worker says so; an attempt that begins again does not take back what was shown."""
        self._parts[progress.part] = progress
        records = sum(part.record_count for part in self._parts.values())
        files = sum(part.file_count for part in self._parts.values())
        share = min(records / self._offsets, 1.0)
        self.done_bytes = max(self.done_bytes, int(self.total_bytes * share))
        self.records = max(self.records, records)
        self.files = max(self.files, files)

    def end(self, result: JobResult) -> None:
        """What it did in the end."""
        self.done_bytes = self.total_bytes
        self.records = result.record_count
        self.files = len(result.files)


class Tally:
    """The jobs of a round by topic; `changed` is called with the topic whose jobs have advanced."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Running] = {}
        self.total_bytes: Counter[str] = Counter()

    def planned(self, jobs: Sequence[Job]) -> None:
        """A round has begun: these jobs will be run."""
        self._jobs = {job.task_id: _Running(job) for job in jobs}
        self.total_bytes = Counter()
        for job in self._jobs.values():
            self.total_bytes[job.topic] += job.total_bytes

    def advanced(self, progress: JobProgress) -> None:
        """A job has come so far."""
        if (job := self._jobs.get(progress.task_id)) is not None:
            job.advance(progress)
            self.changed(job.topic)

    def ended(self, result: JobResult) -> None:
        """A job has ended."""
        if (job := self._jobs.get(result.task_id)) is not None:
            job.end(result)
            self.changed(job.topic)

    def changed(self, topic: str) -> None:
        """For those who show it."""

    def of_topic(self, topic: str) -> tuple[int, int, int]:
        """Input bytes, records and files that are done."""
        jobs = [job for job in self._jobs.values() if job.topic == topic]
        return (
            sum(job.done_bytes for job in jobs),
            sum(job.records for job in jobs),
            sum(job.files for job in jobs),
        )


class RoundProgress(Tally):
    """A progress bar per topic on a terminal, nothing elsewhere. A context manager."""

    def __init__(self) -> None:
        super().__init__()
        self._started = time.monotonic()
        self._bars: dict[str, TaskID] = {}
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
        super().planned(jobs)
        if self._display is None:
            return
        for topic, size_bytes in self.total_bytes.items():
            total = max(size_bytes, 1)
            self._bars[topic] = self._display.add_task(topic, total=total, rows=0, files=0)

    def changed(self, topic: str) -> None:
        """Move its bar."""
        if self._display is not None:
            done_bytes, rows, files = self.of_topic(topic)
            self._display.update(self._bars[topic], completed=done_bytes, rows=rows, files=files)


class LoggedProgress(Tally):
    """A log line per topic for rounds that take long."""

    def __init__(self) -> None:
        super().__init__()
        self._began_s = 0.0
        self._told_s: dict[str, float] = {}

    def planned(self, jobs: Sequence[Job]) -> None:
        """A round has begun."""
        super().planned(jobs)
        self._began_s = time.monotonic()
        self._told_s = {}

    def changed(self, topic: str) -> None:
        """Tell it, if the last line is old enough."""
        now_s = time.monotonic()
        if now_s - self._told_s.get(topic, self._began_s) < LOG_PAUSE_S:
            return
        self._told_s[topic] = now_s
        done_bytes, records, files = self.of_topic(topic)
        logger.info(
            "compacting",
            topic=topic,
            records=records,
            files=files,
            input_bytes=done_bytes,
            of_bytes=self.total_bytes[topic],
            mb_per_second=round(done_bytes / MB / (now_s - self._began_s), 1),
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
        TextColumn("{task.fields[rows]:,} rows, {task.fields[files]} files"),
        console=Console(stderr=True),
    )
