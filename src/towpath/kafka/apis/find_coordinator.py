"""FindCoordinator (key 10), versions 0-6.

Any broker can coordinate any group, so the answer is a hint: the live broker that the group's name
hashes to. Transactions are not supported: their coordinators are refused with the error that ends a
client's attempt at once (see `init_producer_id`). Share groups are not served.

Clients ask for this API even when they use no groups: librdkafka sends lz4 only to brokers that
advertise it from version 0.
"""

from __future__ import annotations

import hashlib

import structlog

from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from towpath.kafka.errors import ErrorCode
from towpath.metadata.store import MetadataError

log = structlog.get_logger(__name__)

GROUP = 0
TRANSACTION = 1
BATCHED_SINCE_VERSION = 4
NO_NODE = -1


@api(
    key=10,
    versions=(0, 6),
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
)
async def handle_find_coordinator(
    request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    """The broker to ask for each key."""
    try:
        await context.services.cluster.refresh()
    except MetadataError:
        # The brokers in memory are a good enough hint while the store is away.
        log.warning("cannot refresh the brokers for FindCoordinator")
    if context.api_version >= BATCHED_SINCE_VERSION:
        found = [_find(key, request.key_type, context) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _find(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(key: str, key_type: int, context: RequestContext) -> Coordinator:
    if key_type != GROUP:
        transaction = key_type == TRANSACTION
        refusal = (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if transaction
            else ErrorCode.INVALID_REQUEST
        )
        what = "Transactions" if transaction else f"Coordinators of type {key_type}"
        return _refused(key, refusal, f"{what} are not supported.", context)
    if not key:
        return _refused(key, ErrorCode.INVALID_GROUP_ID, "The group id is empty.", context)
    cluster = context.services.cluster
    wanted = cluster.leader(_hash(key))
    broker = next(broker for broker in cluster.brokers() if broker.broker_id == wanted)
    return Coordinator(
        key=key, node_id=broker.broker_id, host=broker.host, port=broker.port, error_message=None
    )


def _refused(key: str, code: ErrorCode, message: str, context: RequestContext) -> Coordinator:
    count_errors(context, "FindCoordinator", (code,))
    return Coordinator(
        key=key, node_id=NO_NODE, port=NO_NODE, error_code=code, error_message=message
    )


def _hash(group_id: str) -> int:
    """A group's place among the streams; stable across releases."""
    return int.from_bytes(hashlib.blake2b(group_id.encode(), digest_size=8).digest(), "big")
