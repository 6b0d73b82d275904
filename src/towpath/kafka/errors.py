"""The one table from the core's failures to Kafka's error codes."""

from __future__ import annotations

import structlog

from towpath import errors
from towpath.kafka.codec.error_codes import RETRIABLE, ErrorCode

log = structlog.get_logger(__name__)

CODES: dict[type[BaseException], ErrorCode] = {
    errors.CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    errors.InvalidBatch: ErrorCode.INVALID_RECORD,
    # Kafka answers a batch of an old message format, in a request that may only carry v2, with
    # INVALID_RECORD.
    errors.UnsupportedMagic: ErrorCode.INVALID_RECORD,
    errors.UnsupportedCompression: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    errors.BatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    errors.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    errors.TransactionalBatch: ErrorCode.INVALID_TXN_STATE,
    errors.BatchError: ErrorCode.INVALID_RECORD,
    errors.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.DuplicateSequence: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    errors.StaleProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    errors.UnknownProducer: ErrorCode.UNKNOWN_PRODUCER_ID,
    errors.StreamGone: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    errors.LogUnavailable: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.LogDamaged: ErrorCode.KAFKA_STORAGE_ERROR,
    # Retriable, and the client looks for another broker, which is right when this one stops.
    errors.LogClosed: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    # The client looks for the coordinator again and repeats its request.
    errors.GroupUnavailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.TopicNotFound: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.TopicIdNotFound: ErrorCode.UNKNOWN_TOPIC_ID,
    errors.TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    errors.InvalidTopicName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    errors.InvalidPartitionCount: ErrorCode.INVALID_PARTITIONS,
    errors.InvalidReplicationFactor: ErrorCode.INVALID_REPLICATION_FACTOR,
    errors.InvalidReplicaAssignment: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    errors.InvalidConfig: ErrorCode.INVALID_CONFIG,
    # Kafka has no code for a lost race; this one is retriable for every client and API.
    errors.ConcurrentChange: ErrorCode.REQUEST_TIMED_OUT,
    TimeoutError: ErrorCode.REQUEST_TIMED_OUT,
}
"""The nearest class in an exception's ancestry decides."""


def error_code_of(error: BaseException) -> ErrorCode:
    """The code a client is told; an unexpected exception is logged with its traceback."""
    for cls in type(error).__mro__:
        code = CODES.get(cls)
        if code is not None:
            return code
    log.error("unexpected failure", exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR


def error_message_of(error: BaseException) -> str | None:
    """What a client is told in words; None for failures that are not its business."""
    return str(error) or None if isinstance(error, errors.TowpathError) else None


__all__ = ["CODES", "RETRIABLE", "ErrorCode", "error_code_of", "error_message_of"]
