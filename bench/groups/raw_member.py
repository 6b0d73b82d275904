"""What the load generator's members of both protocols have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

from bench.groups.wire import Connection, frame_of
from towpath.kafka.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

COMMIT_VERSION = 9
OFFSET_MARK = 0x0123_4567_89AB_CDEF
"""Tells where in a frame the offset is."""
OFFSET_BYTES = 8


class RawMember(ABC):
    """One member with a connection of its own."""

    def __init__(self, connection: Connection, group_id: str, member_id: str) -> None:
        self.connection = connection
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = 0
        """Or generation."""

    @abstractmethod
    def heartbeat_frame(self) -> bytes:
        """A heartbeat that says no more than it must."""

    @abstractmethod
    def is_stable(self, frame: bytes) -> bool:
        """Whether an answer to a heartbeat says that all is well and nothing has changed."""

    def commit_frame(self, topic: str, partition: int) -> bytes:
        """A commit of OFFSET_MARK as the offset of one partition."""
        committed = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=OFFSET_MARK
        )
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[committed])],
        )
        return frame_of(request, COMMIT_VERSION)
