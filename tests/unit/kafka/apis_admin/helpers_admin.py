"""Calls admin handlers as the server does: encoded and decoded, on a real catalog and cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from tests.unit.helpers_topics import RUNTIME, FaultyStore

from towpath.cluster.membership import Membership
from towpath.groups.coordinator import GroupCoordinator
from towpath.groups.interface import Groups
from towpath.groups.kinds import KINDS
from towpath.groups.offsets.offsets import Offsets
from towpath.groups.settings import GroupSettings
from towpath.kafka.apis.all import APIS
from towpath.kafka.apis.registry import RequestContext
from towpath.kafka.codec import decode, encode
from towpath.kafka.codec.schema import ApiMessage
from towpath.kafka.services import KafkaSettings, Services
from towpath.log.interface import Log
from towpath.log.producer_ids import ProducerIds
from towpath.metadata.keys.cluster import BrokerRecord
from towpath.observe.metrics import Metrics
from towpath.topics.catalog import TopicCatalog
from towpath.topics.effective import TopicDefaults

Answer = TypeVar("Answer", bound=ApiMessage)


@dataclass
class AdminRig:
    """One broker without a network."""

    store: FaultyStore
    services: Services
    catalog: TopicCatalog
    cluster: Membership

    async def call(
        self, request: Any, answer: type[Answer], version: int, client_id: str = "test"
    ) -> Answer:
        """Send a request in a version and decode what the client would get."""
        api = APIS[type(request).API_KEY]
        assert api.min_version <= version <= api.max_version
        assert api.response_type is answer
        seen = decode(type(request), version, encode(request, version))
        context = RequestContext(
            services=self.services,
            api_key=api.key,
            api_version=version,
            correlation_id=1,
            client_id=client_id,
            connection_id=1,
            peer="127.0.0.1:5",
            release=lambda: None,
        )
        response = await api.handle(seen, context)
        assert isinstance(response, answer)
        return decode(answer, version, encode(response, version))


def _groups(store: FaultyStore, catalog: TopicCatalog, cluster: Membership) -> Groups:
    """A coordinator that is not started: it has settings to administer, and nothing else."""
    return GroupCoordinator(
        store, RUNTIME, catalog, cluster, GroupSettings(), KINDS, session_ttl_ms=10_000
    )


@asynccontextmanager
async def admin_rig(
    store: FaultyStore | None = None,
    *,
    broker_id: int = 1,
    settings: KafkaSettings | None = None,
    defaults: TopicDefaults | None = None,
    zone: str | None = None,
    rack: str | None = "r1",
    groups: Groups | None = None,
) -> AsyncIterator[AdminRig]:
    """A started rig."""
    store = store or FaultyStore()
    defaults = defaults or TopicDefaults()
    me = BrokerRecord(broker_id, "127.0.0.1", 9092, 1, "test", zone_id=zone, rack=rack)
    cluster = Membership(store, "test-cluster", me)
    catalog = TopicCatalog(
        store, RUNTIME, defaults, lambda: [found.broker_id for found in cluster.brokers()]
    )
    await cluster.start()
    await catalog.start()
    services = Services(
        log=cast(Log, None),
        topics=catalog,
        cluster=cluster,
        producer_ids=ProducerIds(store),
        settings=settings or KafkaSettings(),
        metrics=Metrics(),
        runtime=RUNTIME,
        broker_configs={
            **defaults.broker_configs(),
            "auto.create.topics.enable": "true",
            "ssl.keystore.password": "hunter2",
        },
        groups=groups or _groups(store, catalog, cluster),
        offsets=cast(Offsets, None),
    )
    try:
        yield AdminRig(store, services, catalog, cluster)
    finally:
        await catalog.close()
        await cluster.close()
