"""The pipeline as a service: round after round until it is stopped, whatever fails in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from towpath.lakehouse.pauses import Pauses
from towpath.lakehouse.pipeline import Pipeline
from towpath.lakehouse.rounds import RoundSummary, RoundWatcher
from towpath.lakehouse.runners.runner import Runner
from towpath.lakehouse.settings import PipelineSettings
from towpath.observe.metrics import Metrics
from towpath.runtime import Runtime

REPEAT_FAILURE_MS = 600_000
"""The same failure is logged again after this."""
WHOLE_ROUND = 0
"""The pause of rounds that failed as a whole."""

logger = structlog.get_logger(__name__)

RoundObserver = Callable[[RoundSummary], None]


class PipelineFailing(Exception):
    """The last round did not do all its work."""


class PipelineService:
    """Runs rounds. A failure is told once, in one line, and tried again with growing pauses."""

    def __init__(
        self,
        pipeline: Pipeline,
        runner: Runner,
        runtime: Runtime,
        settings: PipelineSettings,
        metrics: Metrics,
        *,
        before_round: Callable[[], Awaitable[None]] | None = None,
        progress: RoundWatcher | None = None,
        observer: RoundObserver | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._runner = runner
        self._clock = runtime.clock
        self._settings = settings
        self._metrics = metrics
        self._before_round = before_round
        self._progress = progress
        self._observer = observer
        self._pauses = Pauses(runtime)
        self._told: dict[str, int] = {}
        self._worked_at_ms = self._clock.monotonic_ms()
        self._is_idle = True
        self._failure: str | None = None

    async def run(self) -> None:
        """Rounds until this task is cancelled."""
        while True:
            more = False
            if not self._pauses.paused(WHOLE_ROUND):
                more = await self._round()
            if not more:
                await asyncio.sleep(self._settings.interval_ms / 1000)

    async def probe(self) -> None:
        """Raise what the last round failed with, if it did."""
        if self._failure is not None:
            raise PipelineFailing(self._failure)

    async def _round(self) -> bool:
        """One round; whether the next one should follow at once."""
        try:
            if self._before_round is not None:
                await self._before_round()
            summary = await self._pipeline.run_round(self._progress)
        except Exception as error:  # noqa: BLE001 - whatever breaks a round must not end the loop
            self._failure = f"{type(error).__name__}: {error}"
            self._tell(self._failure)
            self._pauses.failed(WHOLE_ROUND)
            return False
        if self._observer is not None:
            self._observer(summary)
        for failure in summary.failures:
            self._tell(failure)
        self._failure = summary.failures[0] if summary.failures else None
        self._count(summary)
        if summary.failures and not summary.tasks:
            self._pauses.failed(WHOLE_ROUND)
        else:
            self._pauses.succeeded(WHOLE_ROUND)
        await self._rest(summary)
        return summary.more and not summary.failures

    def _count(self, summary: RoundSummary) -> None:
        for name, topic in summary.topics.items():
            self._metrics.compacted_records.labels(name).inc(topic.records)
            self._metrics.compacted_bytes.labels(name).inc(topic.input_bytes)
        self._metrics.compaction_backlog_bytes.set(self._pipeline.backlog_bytes)

    async def _rest(self, summary: RoundSummary) -> None:
        """Let the runner give its memory back after a time without work."""
        now_ms = self._clock.monotonic_ms()
        if summary.topics:
            self._worked_at_ms, self._is_idle = now_ms, False
        elif not self._is_idle and now_ms - self._worked_at_ms >= self._settings.idle_after_ms:
            self._is_idle = True
            await self._runner.idle()

    def _tell(self, failure: str) -> None:
        self._metrics.compaction_failures.inc()
        now_ms = self._clock.monotonic_ms()
        told_ms = self._told.get(failure)
        if told_ms is not None and now_ms - told_ms < REPEAT_FAILURE_MS:
            return
        self._told = {
            line: at_ms for line, at_ms in self._told.items() if now_ms - at_ms < REPEAT_FAILURE_MS
        }
        self._told[failure] = now_ms
        logger.warning("compaction waits", reason=failure)
