"""A broker process: it opens the stores and ports that its core works with."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from contextlib import AsyncExitStack

from towpath import __version__, fault_points
from towpath.cluster import identity
from towpath.cluster.membership import Membership
from towpath.config.settings import Settings
from towpath.core import BrokerCore, CoreSettings
from towpath.gc.settings import GcSettings
from towpath.groups.settings import GroupSettings
from towpath.kafka.services import KafkaSettings
from towpath.log.object.settings import ObjectLogSettings
from towpath.metadata.keys.cluster import BrokerRecord
from towpath.metadata.measured import MeasuredStore
from towpath.metadata.memory import MemoryStore
from towpath.metadata.sqlite.store import SqliteStore
from towpath.metadata.store import MetadataStore
from towpath.objects.open import open_object_store
from towpath.objects.store import ObjectStore, ObjectStoreError
from towpath.observe.health import Health
from towpath.observe.http import HttpServer
from towpath.observe.metrics import Metrics
from towpath.observe.peers import Peer
from towpath.records.kernels import loader
from towpath.runtime import Runtime, SystemClock, ThreadOffload
from towpath.threads import WorkThreads
from towpath.topics.from_settings import topic_defaults

OFFLOAD_THREADS = 2
"""Threads for work that releases the GIL; more than the cores would only queue."""

PROBE_TIMEOUT_S = 20.0
"""How long a service may take to show at the start that it works."""


class Broker:
    """Broker `index` of those that share the settings.

    `start` returns when the Kafka port serves. Whatever fails to start stops what had started.
    """

    def __init__(self, settings: Settings, index: int = 0) -> None:
        self._settings = settings
        self._index = index
        self._stack = AsyncExitStack()
        self._failed: asyncio.Future[None] | None = None
        self.kafka_address: tuple[str, int] = ("", 0)
        self.http_address: tuple[str, int] = ("", 0)

    async def start(self) -> None:
        """Open the stores, join the cluster and serve."""
        self._failed = asyncio.get_running_loop().create_future()
        async with self._stack as stack:
            await self._start(stack)
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        """Stop accepting, answer what is in work, flush, leave the cluster, close the stores."""
        await self._stack.aclose()

    async def wait_failed(self) -> None:
        """Wait for a part to die that the broker cannot do without, and raise its error."""
        if self._failed is not None:
            await self._failed

    async def _start(self, stack: AsyncExitStack) -> None:
        settings, metrics = self._settings, Metrics()
        runtime = self._runtime(stack)
        store = await self._open_metadata(runtime, metrics)
        stack.push_async_callback(store.close)
        objects = await self._open_objects(stack, runtime, metrics)
        info = await identity.load_or_create(store, runtime)

        health = Health({"metadata": store.probe, "objects": objects.probe}, runtime.clock)
        listener = bind(settings.kafka_host, settings.broker_kafka_port(self._index))
        stack.callback(listener.close)
        self.kafka_address = (settings.advertised_host, listener.getsockname()[1])

        core = BrokerCore(
            store,
            objects,
            runtime,
            metrics,
            core_settings(settings, self._index),
            fault_points.from_environment(os.environ),
        )
        http = HttpServer(
            settings.http_host,
            settings.broker_http_port(self._index),
            broker_id=settings.broker_id(self._index),
            registry=metrics.registry,
            health=health,
            # The first HTTP port answers for all brokers.
            peers=(lambda: other_brokers(core.cluster)) if self._index == 0 else None,
            refresh=lambda: core.lag.refresh(),
        )
        http.bind()
        stack.push_async_callback(http.stop)
        self.http_address = http.address
        await core.start(info.cluster_id, self._record(runtime, http.url))
        stack.push_async_callback(core.stop)
        await core.server.start_on(listener)
        http.serve()
        warming = loader.load_in_background(asyncio.get_running_loop(), runtime.offload)
        stack.callback(warming.cancel)

    def _runtime(self, stack: AsyncExitStack) -> Runtime:
        threads = WorkThreads(OFFLOAD_THREADS, "offload")
        stack.callback(threads.close, wait=False)
        return Runtime(SystemClock(), random.SystemRandom(), ThreadOffload(threads))

    async def _open_metadata(self, runtime: Runtime, metrics: Metrics) -> MetadataStore:
        path = self._settings.metadata_path()
        store: MetadataStore
        store = MemoryStore(runtime) if path is None else await SqliteStore.open(path, runtime)
        return MeasuredStore(store, metrics)

    async def _open_objects(
        self, stack: AsyncExitStack, runtime: Runtime, metrics: Metrics
    ) -> ObjectStore:
        """The object store. A service is tried first: whoever names a wrong one is told at once."""
        settings = self._settings
        objects = open_object_store(
            settings.objects_url, runtime, metrics, settings.objects_options
        )
        stack.push_async_callback(objects.close)
        if settings.objects_path() is None:
            await try_store(objects, settings.objects_url)
        return objects

    def _record(self, runtime: Runtime, http_url: str) -> BrokerRecord:
        host, port = self.kafka_address
        return BrokerRecord(
            broker_id=self._settings.broker_id(self._index),
            host=host,
            port=port,
            started_at_ms=runtime.clock.now_ms(),
            build=__version__,
            zone_id=self._settings.broker_zone(self._index),
            rack=self._settings.broker_rack(self._index),
            http_url=http_url,
        )


async def try_store(objects: ObjectStore, url: str) -> None:
    """Write, read and delete an object; ObjectStoreError names the store and says what is wrong."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            await objects.probe()
    except TimeoutError:
        reason = f"no answer within {PROBE_TIMEOUT_S:g} s"
        raise ObjectStoreError(f"the object store {url} cannot be used: {reason}") from None
    except ObjectStoreError as error:
        raise ObjectStoreError(f"the object store {url} cannot be used: {error}") from error


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to the address, so that the port is known before anybody is told of it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def other_brokers(membership: Membership) -> list[Peer]:
    """The live brokers but this one, where they answer HTTP."""
    return [
        Peer(broker.broker_id, broker.http_url)
        for broker in membership.brokers()
        if broker.http_url is not None and broker.broker_id != membership.broker_id
    ]


def core_settings(settings: Settings, index: int) -> CoreSettings:
    """What the broker's settings mean for its parts."""
    topics = topic_defaults(settings)
    return CoreSettings(
        topics=topics,
        log=log_settings(settings, index),
        gc=gc_settings(settings),
        kafka=kafka_settings(settings),
        session_ttl_ms=settings.session_timeout_ms,
        drain_ms=settings.shutdown_timeout_ms // 2,
        broker_configs={**settings.kafka_names(index), **topics.broker_configs()},
        groups=group_settings(settings),
    )


def log_settings(settings: Settings, index: int) -> ObjectLogSettings:
    """What the broker's settings mean for its log."""
    return ObjectLogSettings(
        broker_id=settings.broker_id(index),
        cluster_prefix=settings.cluster_prefix,
        zone=settings.broker_zone(index),
        max_buffer_bytes=settings.max_buffer_bytes,
        flush_max_bytes=settings.flush_max_bytes,
        linger_ms=settings.linger_ms,
        max_inflight_flushes=settings.max_inflight_flushes,
        flush_max_objects_per_second=settings.flush_max_objects_per_second,
        range_cache_bytes=settings.range_cache_bytes,
        parquet_cache_bytes=settings.parquet_cache_bytes,
        index_cache_bytes=settings.index_cache_bytes,
        wal_orphan_ttl_ms=settings.wal_orphan_ttl_ms,
        producer_expiry_ms=settings.producer_id_expiration_ms,
    )


def gc_settings(settings: Settings) -> GcSettings:
    """What the broker's settings mean for its collectors."""
    return GcSettings(
        wal_gc_grace_ms=settings.wal_gc_grace_ms,
        wal_orphan_ttl_ms=settings.wal_orphan_ttl_ms,
        gc_interval_ms=settings.gc_interval_ms,
        retention_interval_ms=settings.log_retention_check_interval_ms,
    )


def group_settings(settings: Settings) -> GroupSettings:
    """What the broker's settings mean for consumer groups."""
    return GroupSettings(
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        max_size=settings.group_max_size,
        offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_ms,
        offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
        rebalance_protocols=settings.group_coordinator_rebalance_protocols,
        consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
        consumer_min_session_timeout_ms=settings.group_consumer_min_session_timeout_ms,
        consumer_max_session_timeout_ms=settings.group_consumer_max_session_timeout_ms,
        consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        consumer_min_heartbeat_interval_ms=settings.group_consumer_min_heartbeat_interval_ms,
        consumer_max_heartbeat_interval_ms=settings.group_consumer_max_heartbeat_interval_ms,
        consumer_max_size=settings.group_consumer_max_size,
        consumer_assignors=settings.group_consumer_assignors,
    )


def kafka_settings(settings: Settings) -> KafkaSettings:
    """What the broker's settings mean for the Kafka front end."""
    return KafkaSettings(
        auto_create_topics_enable=settings.auto_create_topics_enable,
        socket_request_max_bytes=settings.socket_request_max_bytes,
        decompressed_max_bytes=settings.decompressed_max_bytes,
        fetch_max_bytes=settings.fetch_max_bytes,
        max_request_partition_size_limit=settings.max_request_partition_size_limit,
        connection_inflight_max_bytes=settings.connection_inflight_max_bytes,
        process_inflight_max_bytes=settings.process_inflight_max_bytes,
        connections_max_idle_ms=settings.connections_max_idle_ms,
        routing_enforce_owner=settings.routing_enforce_owner,
    )
