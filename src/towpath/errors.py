"""Failures of the core that a front end translates into its protocol's own errors.

The log, topics and cluster raise these; they never know which protocol called. Each front end has
one table that maps them (`kafka/errors.py`: exact Kafka error codes).
"""

from __future__ import annotations


class TowpathError(Exception):
    """Base of every failure that a client may be told about."""


# Batches


class BatchError(TowpathError):
    """A produced batch is not acceptable; nothing of it was stored."""

    record_index: int | None = None
    """Which record of the batch is at fault, if it is one."""


class CorruptBatch(BatchError):
    """The checksum, the lengths or the compressed bytes are wrong."""


class InvalidBatch(BatchError):
    """The batch decodes but breaks a rule (deltas, count, control bit, header keys, magic)."""


class UnsupportedMagic(BatchError):
    """The batch is of a message format older than v2."""


class UnsupportedCompression(BatchError):
    """The compression type is unknown, or too new for the request's version."""


class BatchTooLarge(BatchError):
    """The batch exceeds the topic's `max.message.bytes`."""


class InvalidTimestamp(BatchError):
    """A timestamp lies outside what the topic or the table accepts."""


class TransactionalBatch(BatchError):
    """Transactions are not supported."""


# Idempotent producers


class ProducerError(TowpathError):
    """An idempotent producer's batch does not follow its last one."""


class OutOfOrderSequence(ProducerError):
    """A sequence number is missing before this batch."""


class DuplicateSequence(ProducerError):
    """A duplicate so old that its offset is no longer known."""


class StaleProducerEpoch(ProducerError):
    """A newer incarnation of the producer has written."""


class UnknownProducer(ProducerError):
    """The producer's state is gone and the batch does not start at sequence 0."""


# The log


class LogError(TowpathError):
    """The log cannot do what was asked."""


class StreamGone(LogError):
    """The stream's topic does not exist (any more)."""


class OffsetOutOfRange(LogError):
    """The offset lies below the log start or above the log end."""

    def __init__(self, offset: int, log_start: int, log_end: int) -> None:
        super().__init__(f"offset {offset} is outside [{log_start}, {log_end}]")
        self.offset = offset
        self.log_start = log_start
        self.log_end = log_end


class LogUnavailable(LogError):
    """Object store or metadata failed; nothing was acknowledged, the client may retry."""


class LogDamaged(LogError):
    """A committed object is missing or damaged. The message names the object."""


class LogClosed(LogError):
    """This broker is shutting down."""


# Groups


class GroupUnavailable(TowpathError):
    """The metadata store failed, or too many changed the group at once; may be retried."""


# Topics


class TopicError(TowpathError):
    """A request about a topic is not acceptable."""


class TopicNotFound(TopicError):
    """There is no such topic (or partition)."""


class TopicIdNotFound(TopicError):
    """There is no topic of this id."""


class TopicExists(TopicError):
    """A topic of this name exists already."""


class InvalidTopicName(TopicError):
    """The name breaks Kafka's rules or clashes with another one."""


class InvalidPartitionCount(TopicError):
    """The number of partitions is not acceptable."""


class InvalidReplicaAssignment(TopicError):
    """The assignment is not acceptable."""


class InvalidReplicationFactor(TopicError):
    """The replication factor is not acceptable."""


class InvalidConfig(TopicError):
    """An unknown setting, or a value outside its range."""


class ConcurrentChange(TopicError):
    """Another client changed the same thing at once; may be retried."""
