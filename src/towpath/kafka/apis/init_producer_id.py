"""InitProducerId (key 22), versions 0-5.

Serves idempotent producers: each request without a transactional id gets a producer id of its
own with epoch 0, whatever id the producer had before. Transactions are not supported; a request
with a transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which ends
`initTransactions()` of the Java client with that error at once and is fatal in librdkafka (which
goes on retrying after codes such as INVALID_REQUEST until its own time-out).
"""

from __future__ import annotations

from towpath.errors import TowpathError
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from towpath.kafka.errors import ErrorCode
from towpath.metadata.store import MetadataError

NO_PRODUCER = -1
FIRST_EPOCH = 0


@api(
    key=22,
    versions=(0, 5),
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
)
async def handle_init_producer_id(
    request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    """A producer id that nobody else has or will get."""
    refusal = _refusal(request)
    if refusal is not ErrorCode.NONE:
        return _refused(refusal, context)
    try:
        producer_id = await context.services.producer_ids.next_id()
    except (TowpathError, MetadataError):
        # Kafka's own answer while its next block of ids is not there; clients retry it.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, context)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH)


def _refusal(request: InitProducerIdRequest) -> ErrorCode:
    if request.transactional_id is not None:
        if not request.transactional_id:
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if (request.producer_id == NO_PRODUCER) != (request.producer_epoch == NO_PRODUCER):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _refused(error: ErrorCode, context: RequestContext) -> InitProducerIdResponse:
    count_errors(context, "InitProducerId", (error,))
    return InitProducerIdResponse(
        error_code=error, producer_id=NO_PRODUCER, producer_epoch=NO_PRODUCER
    )
