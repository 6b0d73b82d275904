"""The cluster's feature level: raised once every live broker knows what it allows.

A release that does not know a level refuses to join a cluster that has it. Whoever is about to
write something that older releases cannot read raises the level first.
"""

from __future__ import annotations

from dataclasses import replace

from towpath.cluster.identity import FEATURE_LEVEL
from towpath.metadata.keys.cluster import INFO, BrokerRecord, ClusterInfo, brokers_prefix
from towpath.metadata.store import MetadataStore, OutcomeUnknown, VersionConflict, prefix_end

ATTEMPTS = 10
LEVELS_BY_RELEASE = {"0.1": 1, "0.2": 1}
"""The highest level that each older release knows."""


class OlderBrokers(Exception):
    """A live broker does not know the level yet."""


async def reach_level(store: MetadataStore, level: int = FEATURE_LEVEL) -> None:
    """Make sure that the cluster has at least this level; raises OlderBrokers if it may not yet."""
    for _ in range(ATTEMPTS):
        found = await store.get(INFO)
        if found is None:
            raise OlderBrokers("there is no cluster yet: start a broker first")
        info = ClusterInfo.decode(found.value)
        if info.feature_level >= level:
            return
        await _check_brokers(store, info.cluster_id, level)
        try:
            raised = replace(info, feature_level=level)
            await store.put(INFO, raised.encode(), expect=found.version)
        except (VersionConflict, OutcomeUnknown):
            continue
        return
    raise OlderBrokers("the cluster's feature level keeps changing")


async def _check_brokers(store: MetadataStore, cluster_id: str, level: int) -> None:
    prefix = brokers_prefix(cluster_id)
    for row in await store.scan(prefix, prefix_end(prefix)):
        broker = BrokerRecord.decode(row.value)
        release = ".".join(broker.build.split(".")[:2])
        if LEVELS_BY_RELEASE.get(release, level) < level:
            raise OlderBrokers(
                f"broker {broker.broker_id} runs release {broker.build}, which cannot read tables; "
                "compaction starts when all brokers are upgraded"
            )
