"""The broker without its process: everything between the Kafka protocol and the two stores.

It opens no socket, file or thread of its own, so the same code serves in production (`broker.py`)
and in the simulation, where several cores share simulated stores, time and network.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import towpath.kafka.apis.all  # noqa: F401  (registers every API)
from towpath.cluster.membership import Membership
from towpath.gc.runner import GcRunner, Job, standard_jobs
from towpath.gc.settings import GcSettings
from towpath.groups.coordinator import GroupCoordinator
from towpath.groups.kinds import KINDS
from towpath.groups.lag import GroupLag
from towpath.groups.offsets.offsets import Offsets
from towpath.groups.offsets.sweeper import OffsetSweeper
from towpath.groups.settings import GroupSettings
from towpath.kafka.apis.registry import APIS
from towpath.kafka.server import KafkaServer
from towpath.kafka.services import KafkaSettings, Services
from towpath.log.object.log import ObjectLog
from towpath.log.object.settings import ObjectLogSettings
from towpath.log.object.writer import Checkpoint
from towpath.log.producer_ids import ProducerIds
from towpath.metadata.keys.cluster import BrokerRecord
from towpath.metadata.keys.topics import split_stream_id
from towpath.metadata.store import MetadataStore
from towpath.objects.store import ObjectStore
from towpath.observe.group_lag import GroupLagMetrics
from towpath.observe.metrics import Metrics
from towpath.runtime import Runtime
from towpath.topics.catalog import TopicCatalog
from towpath.topics.effective import TopicDefaults


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """What the parts of a broker need to know."""

    topics: TopicDefaults
    log: ObjectLogSettings
    gc: GcSettings
    kafka: KafkaSettings
    session_ttl_ms: int
    drain_ms: int
    broker_configs: dict[str, str]
    groups: GroupSettings = field(default_factory=GroupSettings)


class BrokerCore:
    """The parts of one broker, started and stopped in order."""

    def __init__(
        self,
        store: MetadataStore,
        objects: ObjectStore,
        runtime: Runtime,
        metrics: Metrics,
        settings: CoreSettings,
        checkpoint: Checkpoint,
    ) -> None:
        self._store = store
        self._objects = objects
        self._runtime = runtime
        self._metrics = metrics
        self._settings = settings
        self._checkpoint = checkpoint
        self._stack = AsyncExitStack()
        # Set by `start`.
        self.cluster: Membership
        self.lag: GroupLag
        self.server: KafkaServer

    async def start(self, cluster_id: str, me: BrokerRecord) -> None:
        """Join the cluster and be ready to serve; the caller then gives the server its sockets."""
        async with self._stack as stack:
            await self._start(stack, cluster_id, me)
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        """Answer what is in work, flush, stop collecting, and leave the cluster."""
        await self._stack.aclose()

    async def _start(self, stack: AsyncExitStack, cluster_id: str, me: BrokerRecord) -> None:
        settings, store = self._settings, self._store
        self.cluster = Membership(store, cluster_id, me, session_ttl_ms=settings.session_ttl_ms)
        await self.cluster.start()
        stack.push_async_callback(self.cluster.close)
        topics = TopicCatalog(
            store,
            self._runtime,
            settings.topics,
            lambda: [broker.broker_id for broker in self.cluster.brokers()],
        )
        await topics.start()
        stack.push_async_callback(topics.close)

        def is_live(stream_id: int) -> bool:
            number, partition = split_stream_id(stream_id)
            topic = topics.get_by_number(number)
            return topic is not None and partition < topic.partitions

        log = ObjectLog(
            store,
            self._objects,
            self._runtime,
            settings.log,
            self._metrics,
            live=is_live,
            freshen=topics.refresh,
            checkpoint=self._checkpoint,
        )
        await log.start()
        stack.push_async_callback(log.close)
        groups = GroupCoordinator(
            store,
            self._runtime,
            topics,
            self.cluster,
            settings.groups,
            KINDS,
            session_ttl_ms=settings.session_ttl_ms,
            metrics=self._metrics,
            registration=self.cluster.registration,
        )
        await groups.start()
        stack.push_async_callback(groups.close)
        offsets = Offsets(store, groups, topics, self.cluster.registration)
        stack.push_async_callback(offsets.close)
        clock = self._runtime.clock
        self.lag = GroupLag(store, groups, topics, log, self.cluster, clock)
        stack.push_async_callback(self.lag.close)
        told = GroupLagMetrics(lambda: self.lag.last, clock.now_ms)
        self._metrics.registry.register(told)
        stack.callback(self._metrics.registry.unregister, told)
        jobs = standard_jobs(
            store,
            self._objects,
            topics,
            log.save_producers,
            self._runtime,
            settings.gc,
            self._metrics,
        )
        sweeper = OffsetSweeper(store, groups, topics, clock, settings.groups)
        sweep_ms = settings.groups.offsets_retention_check_interval_ms
        jobs.append(Job("group-offsets", sweeper, sweep_ms))
        collectors = GcRunner(jobs, store, self._runtime, self._metrics)
        collectors.start()
        stack.push_async_callback(collectors.close)
        services = Services(
            log=log,
            topics=topics,
            cluster=self.cluster,
            producer_ids=ProducerIds(store),
            settings=settings.kafka,
            metrics=self._metrics,
            runtime=self._runtime,
            broker_configs=settings.broker_configs,
            groups=groups,
            offsets=offsets,
        )
        self.server = KafkaServer(services, APIS)
        stack.push_async_callback(self.server.stop, settings.drain_ms)
