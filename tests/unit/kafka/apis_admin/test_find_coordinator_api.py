"""FindCoordinator: a live broker for a group, refusals for what is not served."""

from __future__ import annotations

import pytest
from tests.unit.kafka.apis_admin.helpers_admin import admin_rig
from tests.unit.kafka.apis_admin.helpers_leases import LeasesOnly

from towpath.kafka.codec.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from towpath.kafka.errors import ErrorCode


@pytest.mark.parametrize("version", [0, 1, 3])
async def test_one_group_gets_a_live_broker(version: int) -> None:
    async with admin_rig(groups=LeasesOnly()) as rig:
        answer = await rig.call(FindCoordinatorRequest(key="g"), FindCoordinatorResponse, version)
        (broker,) = rig.cluster.brokers()
        assert answer.error_code == ErrorCode.NONE
        assert (answer.node_id, answer.host, answer.port) == (
            broker.broker_id,
            broker.host,
            broker.port,
        )


@pytest.mark.parametrize("version", [4, 6])
async def test_groups_are_answered_one_by_one(version: int) -> None:
    async with admin_rig(groups=LeasesOnly()) as rig:
        keys = ["a", "", "b", "long" * 1000]
        request = FindCoordinatorRequest(coordinator_keys=keys)
        answer = await rig.call(request, FindCoordinatorResponse, version)
        assert [(found.key, found.error_code) for found in answer.coordinators] == [
            (key, ErrorCode.NONE) for key in keys
        ]
        assert {found.node_id for found in answer.coordinators} == {1}


@pytest.mark.parametrize(
    ("key_type", "code"),
    [(1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), (2, ErrorCode.INVALID_REQUEST)],
)
async def test_transactions_and_share_groups_are_refused(key_type: int, code: int) -> None:
    async with admin_rig() as rig:
        request = FindCoordinatorRequest(key="t", key_type=key_type)
        answer = await rig.call(request, FindCoordinatorResponse, 2)
        assert (answer.error_code, answer.node_id) == (code, -1)
