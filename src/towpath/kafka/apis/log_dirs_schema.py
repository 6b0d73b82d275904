"""DescribeLogDirs' response with two tagged fields of our own on each partition.

Clients skip tags they do not know; ours read how many objects a partition's records are in and
when it was last written. The tags are far above those that Kafka hands out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from towpath.kafka.codec.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from towpath.kafka.codec.schema import Field, Message

TAGGED_VERSIONS = (DescribeLogDirsResponse.FLEXIBLE_SINCE, DescribeLogDirsResponse.VERSIONS[1])
OBJECT_COUNT_TAG = 10_000
LAST_WRITE_MS_TAG = 10_001


def _tagged(name: str, tag: int) -> Field:
    """An int64 that is written whenever it is not None."""
    return Field(name, "int64", TAGGED_VERSIONS, tag=tag, tagged=TAGGED_VERSIONS, default=None)


def _with_struct(fields: tuple[Field, ...], name: str, struct: type[Message]) -> tuple[Field, ...]:
    return tuple(replace(field, struct=struct) if field.name == name else field for field in fields)


class LogDirPartition(DescribeLogDirsPartition):
    """A partition with the two fields of ours, None where the version or the broker has none."""

    __slots__ = ("last_write_ms", "object_count")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
        object_count: int | None = None,
        last_write_ms: int | None = None,
    ) -> None:
        super().__init__(
            partition_index=partition_index,
            partition_size=partition_size,
            offset_lag=offset_lag,
            is_future_key=is_future_key,
        )
        self.object_count = object_count
        self.last_write_ms = last_write_ms

    FIELDS: ClassVar[tuple[Field, ...]] = (
        *DescribeLogDirsPartition.FIELDS,
        _tagged("object_count", OBJECT_COUNT_TAG),
        _tagged("last_write_ms", LAST_WRITE_MS_TAG),
    )


class LogDirTopic(DescribeLogDirsTopic):
    """A topic whose partitions are LogDirPartitions."""

    __slots__ = ()
    FIELDS: ClassVar[tuple[Field, ...]] = _with_struct(
        DescribeLogDirsTopic.FIELDS, "partitions", LogDirPartition
    )


class LogDirResult(DescribeLogDirsResult):
    """A log directory whose topics are LogDirTopics."""

    __slots__ = ()
    FIELDS: ClassVar[tuple[Field, ...]] = _with_struct(
        DescribeLogDirsResult.FIELDS, "topics", LogDirTopic
    )


class LogDirsResponse(DescribeLogDirsResponse):
    """The whole response; byte for byte Kafka's but for the two tags."""

    __slots__ = ()
    FIELDS: ClassVar[tuple[Field, ...]] = _with_struct(
        DescribeLogDirsResponse.FIELDS, "results", LogDirResult
    )
