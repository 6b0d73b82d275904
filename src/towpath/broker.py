"""A broker process: its parts, in the order in which they start and stop."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

import structlog

import towpath.kafka.apis.all  # noqa: F401  (registers every API)
from towpath import __version__, fault_points
from towpath.cluster import identity
from towpath.cluster.membership import Membership
from towpath.config.settings import Settings
from towpath.gc.runner import GcRunner, standard_jobs
from towpath.gc.settings import GcSettings
from towpath.kafka.apis.registry import APIS
from towpath.kafka.server import KafkaServer
from towpath.kafka.services import KafkaSettings, Services
from towpath.log.object.log import ObjectLog
from towpath.log.object.settings import ObjectLogSettings
from towpath.log.producer_ids import ProducerIds
from towpath.metadata.keys.cluster import BrokerRecord
from towpath.metadata.keys.topics import split_stream_id
from towpath.metadata.measured import MeasuredStore
from towpath.metadata.memory import MemoryStore
from towpath.metadata.sqlite.store import SqliteStore
from towpath.metadata.store import MetadataStore
from towpath.objects.open import open_object_store
from towpath.observe.health import Health
from towpath.observe.http import HttpServer
from towpath.observe.metrics import Metrics
from towpath.observe.peers import Peer
from towpath.records.kernels import loader
from towpath.runtime import Runtime, SystemClock, ThreadOffload
from towpath.topics.catalog import TopicCatalog
from towpath.topics.effective import TopicDefaults

logger = structlog.get_logger(__name__)

OFFLOAD_THREADS = 2
"""Threads for work that releases the GIL; more than the cores would only queue."""


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
        objects = open_object_store(settings.objects_url, runtime, metrics)
        stack.push_async_callback(objects.close)
        info = await identity.load_or_create(store, runtime)

        health = Health({"metadata": store.probe, "objects": objects.probe}, runtime.clock)
        listener = bind(settings.kafka_host, settings.broker_kafka_port(self._index))
        stack.callback(listener.close)
        self.kafka_address = (settings.advertised_host, listener.getsockname()[1])

        # The membership is needed by the HTTP port (peers) and needs its address.
        membership: Membership | None = None

        def peers() -> Sequence[Peer]:
            return [] if membership is None else other_brokers(membership)

        http = HttpServer(
            settings.http_host,
            settings.broker_http_port(self._index),
            broker_id=settings.broker_id(self._index),
            registry=metrics.registry,
            health=health,
            peers=peers if self._index == 0 else None,
        )
        await http.start()
        stack.push_async_callback(http.stop)
        self.http_address = http.address
        membership = Membership(
            store,
            info.cluster_id,
            self._record(runtime, http.url),
            session_ttl_ms=settings.session_timeout_ms,
        )
        await membership.start()
        stack.push_async_callback(membership.close)
        topics = TopicCatalog(
            store,
            runtime,
            topic_defaults(settings),
            lambda: [broker.broker_id for broker in membership.brokers()],
        )
        await topics.start()
        stack.push_async_callback(topics.close)

        def is_live(stream_id: int) -> bool:
            number, partition = split_stream_id(stream_id)
            topic = topics.get_by_number(number)
            return topic is not None and partition < topic.partitions

        log = ObjectLog(
            store,
            objects,
            runtime,
            log_settings(settings, self._index),
            metrics,
            live=is_live,
            checkpoint=fault_points.from_environment(os.environ),
        )
        await log.start()
        stack.push_async_callback(log.close)
        jobs = standard_jobs(
            store, objects, topics, log.save_producers, runtime, gc_settings(settings), metrics
        )
        collectors = GcRunner(jobs, store, runtime, metrics)
        collectors.start()
        stack.push_async_callback(collectors.close)
        services = Services(
            log=log,
            topics=topics,
            cluster=membership,
            producer_ids=ProducerIds(store),
            settings=kafka_settings(settings),
            metrics=metrics,
            runtime=runtime,
            broker_configs={
                **settings.kafka_names(self._index),
                **topic_defaults(settings).broker_configs(),
            },
        )
        server = KafkaServer(services, APIS)
        await server.start_on(listener)
        stack.push_async_callback(server.stop, settings.shutdown_timeout_ms // 2)
        warming = loader.load_in_background(asyncio.get_running_loop(), runtime.offload)
        stack.callback(warming.cancel)

    def _runtime(self, stack: AsyncExitStack) -> Runtime:
        threads = ThreadPoolExecutor(OFFLOAD_THREADS, thread_name_prefix="offload")
        stack.callback(threads.shutdown, wait=False, cancel_futures=True)
        return Runtime(SystemClock(), random.SystemRandom(), ThreadOffload(threads))

    async def _open_metadata(self, runtime: Runtime, metrics: Metrics) -> MetadataStore:
        path = self._settings.metadata_path()
        store: MetadataStore
        store = MemoryStore(runtime) if path is None else await SqliteStore.open(path, runtime)
        return MeasuredStore(store, metrics)

    def _record(self, runtime: Runtime, http_url: str) -> BrokerRecord:
        host, port = self.kafka_address
        return BrokerRecord(
            broker_id=self._settings.broker_id(self._index),
            host=host,
            port=port,
            started_at_ms=runtime.clock.now_ms(),
            build=__version__,
            zone_id=self._settings.zone,
            rack=self._settings.rack,
            http_url=http_url,
        )


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


def topic_defaults(settings: Settings) -> TopicDefaults:
    """What the broker's settings mean for topics."""
    return TopicDefaults(
        num_partitions=settings.num_partitions,
        retention_ms=settings.log_retention_ms,
        retention_bytes=settings.log_retention_bytes,
        max_message_bytes=settings.message_max_bytes,
        cleanup_policy=settings.log_cleanup_policy,
        message_timestamp_type=settings.log_message_timestamp_type,
        message_timestamp_before_max_ms=settings.log_message_timestamp_before_max_ms,
        message_timestamp_after_max_ms=settings.log_message_timestamp_after_max_ms,
    )


def log_settings(settings: Settings, index: int) -> ObjectLogSettings:
    """What the broker's settings mean for its log."""
    return ObjectLogSettings(
        broker_id=settings.broker_id(index),
        cluster_prefix=settings.cluster_prefix,
        zone=settings.zone,
        max_buffer_bytes=settings.max_buffer_bytes,
        flush_max_bytes=settings.flush_max_bytes,
        linger_ms=settings.linger_ms,
        max_inflight_flushes=settings.max_inflight_flushes,
        flush_max_objects_per_second=settings.flush_max_objects_per_second,
        range_cache_bytes=settings.range_cache_bytes,
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
