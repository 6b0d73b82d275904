"""DescribeCluster (key 60), v0-2: the brokers that clients may connect to.

- Only broker endpoints (type 1) are described; asking for controllers is MISMATCHED_ENDPOINT_TYPE,
  anything else UNSUPPORTED_ENDPOINT_TYPE.
- Every listed broker is alive, so `is_fenced` (v2) is always false and asking for fenced ones adds
  nothing.
- A client with a zone is shown the brokers there as long as one lives (`cluster/zones.py`).
"""

from __future__ import annotations

from towpath.kafka.apis.admin_support import CLUSTER_OPERATIONS, freshen
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from towpath.kafka.errors import ErrorCode

_BROKERS, _CONTROLLERS = 1, 2


@api(key=60, versions=(0, 2), request=DescribeClusterRequest, response=DescribeClusterResponse)
async def handle(
    request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    """Answer the live brokers that the client is shown."""
    if request.endpoint_type != _BROKERS:
        return _refusal(request.endpoint_type)
    await freshen(context.services)
    view = context.view()
    response = DescribeClusterResponse(
        cluster_id=context.services.cluster.cluster_id,
        controller_id=view.controller(),
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.broker_id, host=broker.host, port=broker.port, rack=broker.rack
            )
            for broker in view.brokers
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _refusal(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message=(
                "The request was sent to an endpoint of type BROKER, "
                "but we wanted an endpoint of type CONTROLLER"
            ),
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"Unsupported endpoint type {endpoint_type}",
    )
