"""The cluster's identity: written once, and checked by everybody who joins."""

from __future__ import annotations

import asyncio
import base64

import pytest
from tests.unit.helpers_topics import RUNTIME, Fault, FaultyStore

from towpath.cluster.identity import (
    FEATURE_LEVEL,
    IncompatibleCluster,
    id_text,
    load_or_create,
    random_id,
)
from towpath.metadata.keys.cluster import INFO, ClusterInfo
from towpath.metadata.store import OutcomeUnknown
from towpath.runtime import inline_runtime


async def test_the_first_broker_creates_the_cluster_and_the_others_load_it() -> None:
    store = FaultyStore()
    created = await load_or_create(store, RUNTIME)
    assert (created.domain_count, created.feature_level) == (1, FEATURE_LEVEL)
    assert await load_or_create(FaultyStore(store.state), RUNTIME) == created


async def test_the_id_is_of_kafkas_form() -> None:
    info = await load_or_create(FaultyStore(), RUNTIME)
    assert len(info.cluster_id) == 22
    assert len(base64.urlsafe_b64decode(info.cluster_id + "==")) == 16


def test_ids_never_start_like_an_option() -> None:
    runtime = inline_runtime(seed=1)
    assert not any(id_text(random_id(runtime)).startswith("-") for _ in range(2000))


async def test_brokers_that_start_together_agree() -> None:
    store = FaultyStore()
    other = FaultyStore(store.state)
    store.faults.append(Fault("put", INFO, action=lambda: load_or_create(other, RUNTIME)))
    mine, theirs = await asyncio.gather(
        load_or_create(store, RUNTIME), load_or_create(other, RUNTIME)
    )
    assert mine == theirs


@pytest.mark.parametrize("after", [True, False])
async def test_a_lost_answer_is_settled_by_looking(after: bool) -> None:
    store = FaultyStore()
    store.faults.append(Fault("put", INFO, after=after, error=OutcomeUnknown("lost")))
    info = await load_or_create(store, RUNTIME)
    found = await store.get(INFO)
    assert found is not None
    assert ClusterInfo.decode(found.value) == info


async def test_a_newer_cluster_is_refused_with_advice() -> None:
    store = FaultyStore()
    await store.put(INFO, ClusterInfo("id", 1, FEATURE_LEVEL + 1).encode())
    with pytest.raises(IncompatibleCluster, match=r"feature level 3.*run a newer release"):
        await load_or_create(store, RUNTIME)


async def test_another_number_of_domains_is_refused() -> None:
    store = FaultyStore()
    await store.put(INFO, ClusterInfo("id", 4, FEATURE_LEVEL).encode())
    with pytest.raises(IncompatibleCluster, match="4 metadata domain"):
        await load_or_create(store, RUNTIME)
