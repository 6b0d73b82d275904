"""A compactor process: it opens the stores, the catalog and the runner that the pipeline uses.

Spark and the Iceberg library are loaded when there is work for the first time: a compactor without
any costs little.
"""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import AsyncExitStack
from dataclasses import replace

import structlog

from towpath import fault_points
from towpath.cluster import identity
from towpath.cluster.features import reach_level
from towpath.config.settings import Settings
from towpath.errors import TowpathError
from towpath.gc.runner import GcRunner, Job
from towpath.lakehouse.deleted_tables import DeletedTables
from towpath.lakehouse.file_gc import FileCollector
from towpath.lakehouse.iceberg.locations import Locations, root_uri
from towpath.lakehouse.lazy_tables import LazyTables
from towpath.lakehouse.orphan_files import OrphanFiles
from towpath.lakehouse.pipeline import Pipeline
from towpath.lakehouse.possible import why_no_tables
from towpath.lakehouse.rounds import RoundSummary, RoundWatcher
from towpath.lakehouse.runners.open import open_runner
from towpath.lakehouse.runners.spark_settings import SparkSettings
from towpath.lakehouse.service import PipelineService, RoundObserver
from towpath.lakehouse.settings import PipelineSettings
from towpath.lakehouse.tables import Tables
from towpath.lakehouse.upkeep import TableUpkeep
from towpath.log.object.producer_states import ProducerStates
from towpath.metadata.measured import MeasuredStore
from towpath.metadata.sqlite.store import SqliteStore
from towpath.metadata.store import MetadataStore
from towpath.objects.open import open_object_store
from towpath.objects.store import ObjectStore
from towpath.observe.health import Health
from towpath.observe.http import HttpServer
from towpath.observe.metrics import Metrics
from towpath.runtime import Runtime, SystemClock, ThreadOffload
from towpath.threads import WorkThreads
from towpath.topics.catalog import TopicCatalog
from towpath.topics.from_settings import topic_defaults
from towpath.topics.interface import Topics

OFFLOAD_THREADS = 2
MIB = 1 << 20
NO_BROKER = -1
ORPHAN_LOOKS = 4
"""How often orphans are looked for in the time that they are given."""

logger = structlog.get_logger(__name__)


class CannotCompact(TowpathError):
    """The settings leave nothing to compact, or nowhere to put it."""


class Compactor:
    """One compactor. `start` opens everything; then `run` or `run_once`; then `stop`."""

    def __init__(
        self,
        settings: Settings,
        *,
        progress: RoundWatcher | None = None,
        observer: RoundObserver | None = None,
    ) -> None:
        check(settings)
        self._settings = settings
        self._progress = progress
        self._observer = observer
        self._stack = AsyncExitStack()
        # Set by `start`.
        self._store: MetadataStore
        self._pipeline: Pipeline
        self._service: PipelineService
        self._upkeep: GcRunner

    async def start(self, *, everything_is_due: bool = False) -> None:
        """Open the stores; the Kafka path is not touched by it. With `everything_is_due` no record
        waits for its age."""
        async with self._stack as stack:
            await self._start(stack, everything_is_due)
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        """Stop where it is: every step can be interrupted, and another process goes on."""
        await self._stack.aclose()

    async def run(self) -> None:
        """Rounds and upkeep until cancelled."""
        self._upkeep.start()
        await self._service.run()

    async def run_once(self) -> RoundSummary:
        """One round; raises what stops it."""
        await reach_level(self._store)
        return await self._pipeline.run_round(self._progress)

    async def _start(self, stack: AsyncExitStack, everything_is_due: bool) -> None:
        settings, metrics = self._settings, Metrics()
        runtime = self._runtime(stack)
        path = settings.metadata_path()
        assert path is not None  # `check` has seen to it.
        store: MetadataStore = MeasuredStore(await SqliteStore.open(path, runtime), metrics)
        self._store = store
        stack.push_async_callback(store.close)
        info = await identity.load_or_create(store, runtime)
        objects = open_object_store(
            settings.objects_url, runtime, metrics, settings.objects_options
        )
        stack.push_async_callback(objects.close)
        topics = TopicCatalog(store, runtime, topic_defaults(settings), lambda: ())
        await topics.start()
        stack.push_async_callback(topics.close)
        pipeline_settings = pipeline_settings_of(settings)
        if everything_is_due:
            pipeline_settings = replace(pipeline_settings, wal_max_age_ms=0)
        runner = open_runner(spark_settings_of(settings))
        stack.push_async_callback(runner.close)
        tables = LazyTables(lambda: self._open_tables(info.cluster_id, runtime))
        stack.push_async_callback(tables.close)
        locations = Locations(
            root_uri(settings.objects_url, settings.objects_options), settings.cluster_prefix
        )
        producers = ProducerStates(store, runtime, settings.producer_id_expiration_ms)
        self._pipeline = Pipeline(
            store,
            topics,
            tables,
            runner,
            producers.save,
            locations.uri,
            runtime,
            pipeline_settings,
            fault_points.from_environment(os.environ),
        )
        stack.push_async_callback(self._pipeline.close)
        self._service = PipelineService(
            self._pipeline,
            runner,
            runtime,
            pipeline_settings,
            metrics,
            before_round=lambda: reach_level(store),
            progress=self._progress,
            observer=self._observer,
        )
        await self._serve_http(stack, store, objects, runtime, metrics)
        jobs = self._upkeep_jobs(store, objects, topics, tables, runtime, metrics)
        self._upkeep = GcRunner(jobs, store, runtime, metrics)
        stack.push_async_callback(self._upkeep.close)

    async def _serve_http(
        self,
        stack: AsyncExitStack,
        store: MetadataStore,
        objects: ObjectStore,
        runtime: Runtime,
        metrics: Metrics,
    ) -> None:
        """Metrics and health. A port that is taken costs them, not the tables."""
        probes = {
            "metadata": store.probe,
            "objects": objects.probe,
            "pipeline": self._service.probe,
        }
        http = HttpServer(
            self._settings.http_host,
            self._settings.compaction_http_port,
            broker_id=NO_BROKER,
            registry=metrics.registry,
            health=Health(probes, runtime.clock),
        )
        try:
            http.bind()
        except OSError as error:
            port = self._settings.compaction_http_port
            logger.warning("no metrics of the compactor", port=port, error=str(error))
            return
        stack.push_async_callback(http.stop)
        http.serve()

    def _upkeep_jobs(
        self,
        store: MetadataStore,
        objects: ObjectStore,
        topics: Topics,
        tables: Tables,
        runtime: Runtime,
        metrics: Metrics,
    ) -> list[Job]:
        """What keeps tables and their files small, beside the rounds."""
        settings = pipeline_settings_of(self._settings)
        interval_ms = settings.maintenance_interval_ms
        orphan_interval_ms = max(interval_ms, settings.orphan_ttl_ms // ORPHAN_LOOKS)
        publisher = self._pipeline.publisher
        upkeep = TableUpkeep(store, topics, tables, publisher, runtime, settings)
        files = FileCollector(store, objects, tables, runtime, metrics)
        orphans = OrphanFiles(store, objects, topics, tables, runtime, settings, metrics)
        jobs = [
            Job("tables", upkeep, interval_ms),
            Job("parquet", files, interval_ms),
            Job("parquet-orphans", orphans, orphan_interval_ms),
        ]
        if self._settings.table_on_topic_delete == "drop":
            dropped = DeletedTables(store, tables, runtime, settings)
            jobs.append(Job("deleted-tables", dropped, interval_ms))
        return jobs

    def _runtime(self, stack: AsyncExitStack) -> Runtime:
        threads = WorkThreads(OFFLOAD_THREADS, "offload")
        stack.callback(threads.close, wait=False)
        return Runtime(SystemClock(), random.SystemRandom(), ThreadOffload(threads))

    async def _open_tables(self, cluster_id: str, runtime: Runtime) -> Tables:
        """Load the Iceberg library, which takes a second, and open the catalog."""
        return await runtime.offload(_import_and_open, self._settings, cluster_id, runtime)


def _import_and_open(settings: Settings, cluster_id: str, runtime: Runtime) -> Tables:
    from towpath.lakehouse.iceberg.open import open_tables

    return open_tables(settings, cluster_id, runtime)


def check(settings: Settings) -> None:
    """Raise CannotCompact with one clear line unless these settings can make tables."""
    reason = why_no_tables(settings)
    if reason is not None:
        raise CannotCompact(reason)


def pipeline_settings_of(settings: Settings) -> PipelineSettings:
    """What the settings mean for the pipeline."""
    return PipelineSettings(
        objects_url=settings.objects_url,
        cluster_prefix=settings.cluster_prefix,
        objects_options=settings.objects_options,
        interval_ms=settings.compaction_interval_ms,
        wal_max_age_ms=settings.compaction_wal_max_age_ms,
        wal_max_bytes=settings.compaction_wal_max_bytes,
        job_max_bytes=settings.compaction_job_max_bytes,
        round_max_bytes=settings.compaction_round_max_bytes,
        target_file_bytes=settings.compaction_target_file_size_bytes,
        row_group_bytes=settings.compaction_row_group_bytes,
        max_files_per_partition=settings.compaction_parquet_max_files_per_partition,
        lock_ttl_ms=settings.compaction_lock_ttl_ms,
        file_gc_grace_ms=settings.parquet_gc_grace_ms,
        orphan_ttl_ms=settings.parquet_orphan_ttl_ms,
        retention_in_tables=settings.table_retention == "with-log",
        maintenance_interval_ms=settings.compaction_maintenance_interval_ms,
        idle_after_ms=settings.spark_idle_stop_ms,
    )


def spark_settings_of(settings: Settings) -> SparkSettings:
    """What the settings mean for Spark."""
    return SparkSettings(
        work_dir=settings.data_dir / "spark",
        master=settings.spark_master,
        remote=settings.spark_remote,
        conf=settings.spark_conf,
        driver_memory_mb=settings.spark_driver_memory_bytes // MIB,
        ui_port=settings.spark_ui_port or None,
        idle_stop_ms=settings.spark_idle_stop_ms or None,
    )


async def run_until_stopped(compactor: Compactor, stopping: asyncio.Event) -> None:
    """Run until `stopping` is set or a part dies that it cannot do without."""
    running = asyncio.create_task(compactor.run())
    asked = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        running.cancel()
        asked.cancel()
        results = await asyncio.gather(running, asked, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
