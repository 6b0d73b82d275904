"""The cluster's identity, written once by whichever broker starts first."""

from __future__ import annotations

import base64
import uuid

from towpath.metadata.keys.cluster import INFO, ClusterInfo
from towpath.metadata.store import ABSENT, MetadataStore, OutcomeUnknown, VersionConflict
from towpath.runtime import Runtime

FEATURE_LEVEL = 2
"""The highest level of stored formats and protocols between brokers that this release knows: 2 has
Parquet entries in the index."""

ATTEMPTS = 10
"""Lost races and lost answers before the start gives up."""


class IncompatibleCluster(Exception):
    """The store holds a cluster that this broker must not join."""


def random_id(runtime: Runtime) -> uuid.UUID:
    """A random id whose text does not start with `-`, so that it can be typed after an option."""
    while id_text(found := runtime.uuid4()).startswith("-"):
        pass
    return found


def id_text(value: uuid.UUID) -> str:
    """Kafka's way to write an id: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


async def load_or_create(store: MetadataStore, runtime: Runtime) -> ClusterInfo:
    """The cluster's info; creates the cluster if the store is empty.

    Raises IncompatibleCluster if the cluster's feature level is above this release's, or if it was
    created with another number of domains than the store now offers.
    """
    for _ in range(ATTEMPTS):
        found = await store.get(INFO)
        if found is not None:
            return _checked(ClusterInfo.decode(found.value), store)
        info = ClusterInfo(id_text(random_id(runtime)), store.domain_count, FEATURE_LEVEL)
        try:
            await store.put(INFO, info.encode(), expect=ABSENT)
        except (VersionConflict, OutcomeUnknown):
            continue
        return info
    raise OutcomeUnknown(f"cannot tell whether {INFO} was written")


def _checked(info: ClusterInfo, store: MetadataStore) -> ClusterInfo:
    if info.feature_level > FEATURE_LEVEL:
        raise IncompatibleCluster(
            f"cluster {info.cluster_id} has feature level {info.feature_level}, but this release "
            f"knows levels up to {FEATURE_LEVEL}: run a newer release"
        )
    if info.domain_count != store.domain_count:
        raise IncompatibleCluster(
            f"cluster {info.cluster_id} was created with {info.domain_count} metadata domain(s), "
            f"but the metadata store offers {store.domain_count}: the number cannot change"
        )
    return info
