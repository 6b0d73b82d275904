"""Runs the collectors of a broker: one task per job, a round every interval."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from towpath.cluster.leases import Leases
from towpath.gc.deleted_topics import DeletedTopics
from towpath.gc.entries import SaveProducers
from towpath.gc.orphans import OrphanCollector
from towpath.gc.retention import Retention
from towpath.gc.settings import GcSettings
from towpath.gc.summary import Summary
from towpath.gc.wal import WalCollector
from towpath.metadata.keys import ROOT
from towpath.metadata.store import MetadataError, MetadataStore
from towpath.objects.store import ObjectStore
from towpath.observe.metrics import Metrics
from towpath.runtime import Runtime
from towpath.topics.interface import Topics

LEASES_PREFIX = f"{ROOT}/gc/lease/"
BUSY_PAUSE_MS = 200
"""The pause after a round that stopped at its limit."""

logger = structlog.get_logger(__name__)


class Collector(Protocol):
    """A job: pure work on the stores, repeatable at any time by any broker."""

    async def run_once(self) -> Summary:
        """One bounded round."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """A collector, its name in leases, logs and metrics, and the pause between its rounds."""

    name: str
    collector: Collector
    interval_ms: int


def standard_jobs(
    store: MetadataStore,
    objects: ObjectStore,
    topics: Topics,
    save_producers: SaveProducers,
    runtime: Runtime,
    settings: GcSettings,
    metrics: Metrics,
) -> list[Job]:
    """Every collector of a broker."""
    interval_ms = settings.gc_interval_ms
    return [
        Job(
            "retention",
            Retention(store, topics, save_producers, runtime),
            settings.retention_interval_ms,
        ),
        Job("deleted-topics", DeletedTopics(store, runtime, settings), interval_ms),
        Job("wal", WalCollector(store, objects, runtime, settings, metrics), interval_ms),
        Job("orphans", OrphanCollector(store, objects, runtime, settings, metrics), interval_ms),
    ]


class GcRunner:
    """Runs jobs until closed. A round that fails is logged and counted, and the next one comes."""

    def __init__(
        self, jobs: Sequence[Job], store: MetadataStore, runtime: Runtime, metrics: Metrics
    ) -> None:
        self._jobs = jobs
        self._runtime = runtime
        self._metrics = metrics
        self._leases = Leases(store, runtime)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start one task per job on the running loop."""
        self._tasks = [
            asyncio.create_task(self._repeat(job), name=f"gc-{job.name}") for job in self._jobs
        ]

    async def close(self) -> None:
        """Stop where it is (every job can be interrupted anywhere) and give the leases back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self._leases.close()

    async def _repeat(self, job: Job) -> None:
        pause_ms = job.interval_ms
        while True:
            # Jitter keeps brokers that started together from asking for the lease together.
            await asyncio.sleep(pause_ms * (0.5 + self._runtime.random.random()) / 1000)
            summary = await self.run_round(job)
            more = summary is not None and summary.more
            pause_ms = min(BUSY_PAUSE_MS, job.interval_ms) if more else job.interval_ms

    async def run_round(self, job: Job) -> Summary | None:
        """One round if this broker holds the job's lease; None if it does not, or failed."""
        try:
            if not await self._leases.hold(LEASES_PREFIX + job.name):
                return None
            summary = await job.collector.run_once()
        except Exception as error:  # noqa: BLE001 - whatever breaks a round must not end the loop
            self._metrics.gc_failures.labels(job.name).inc()
            logger.warning("collector round failed", collector=job.name, error=repr(error))
            await self._let_others_try(job)
            return None
        if summary.removed:
            logger.info(
                "collected",
                collector=job.name,
                examined=summary.examined,
                removed=summary.removed,
                more=summary.more,
            )
        return summary

    async def _let_others_try(self, job: Job) -> None:
        try:
            await self._leases.release(LEASES_PREFIX + job.name)
        except MetadataError:
            return  # The lease ends with the session, or this broker keeps it.
