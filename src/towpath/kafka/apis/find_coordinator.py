"""FindCoordinator (key 10), versions 0-6.

Any broker can coordinate any group, so the answer is a hint: the broker that holds the group's
lease if the client is shown it, else the one among those shown that the group's name hashes to. A
client with a zone is shown the brokers there as long as one lives.

Transactions are not supported: their coordinators are refused with the error that ends a client's
attempt at once (see `init_producer_id`). Share groups are not served.

Clients ask for this API even when they use no groups: librdkafka sends lz4 only to brokers that
advertise it from version 0.
"""

from __future__ import annotations

import structlog

from towpath.cluster.rendezvous import key_hash
from towpath.errors import GroupUnavailable
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from towpath.kafka.errors import ErrorCode
from towpath.metadata.keys.groups import fits
from towpath.metadata.store import MetadataError

log = structlog.get_logger(__name__)

GROUP = 0
TRANSACTION = 1
NO_ERROR_TEXT = "NONE"
"""What Kafka says when nothing is wrong, in the versions for a single key."""
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
        found = [await _find(key, request.key_type, context) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = await _find(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message or NO_ERROR_TEXT,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _find(key: str, key_type: int, context: RequestContext) -> Coordinator:
    if key_type != GROUP:
        transaction = key_type == TRANSACTION
        refusal = (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if transaction
            else ErrorCode.INVALID_REQUEST
        )
        what = "Transactions" if transaction else f"Coordinators of type {key_type}"
        return _refused(key, refusal, f"{what} are not supported.", context)
    holder = await _holder(key, context)
    view = context.view()
    broker = None if holder is None else view.get(holder)
    if broker is None:
        broker = view.get(view.leader(key_hash(key)))
    assert broker is not None, "the leader is one of the brokers shown"
    return Coordinator(
        key=key, node_id=broker.broker_id, host=broker.host, port=broker.port, error_message=""
    )


async def _holder(group_id: str, context: RequestContext) -> int | None:
    """Who holds the group's lease; None if nobody, or while the store is away."""
    if not fits(group_id):
        return None  # There can be no such group; whoever is asked for it will say so.
    try:
        return await context.services.groups.holder(group_id)
    except GroupUnavailable:
        log.warning("cannot look for the lease of a group", group_id=group_id)
        return None


def _refused(key: str, code: ErrorCode, message: str, context: RequestContext) -> Coordinator:
    count_errors(context, "FindCoordinator", (code,))
    return Coordinator(
        key=key, node_id=NO_NODE, port=NO_NODE, error_code=code, error_message=message
    )
