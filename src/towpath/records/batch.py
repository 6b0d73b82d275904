"""A view of a record batch's header, and the two fields that may be patched.

Layout (big-endian): baseOffset i64 @0, batchLength i32 @8, partitionLeaderEpoch i32 @12,
magic i8 @16, crc u32 @17, attributes i16 @21, lastOffsetDelta i32 @23, baseTimestamp i64 @27,
maxTimestamp i64 @35, producerId i64 @43, producerEpoch i16 @51, baseSequence i32 @53,
recordCount i32 @57, records @61. The CRC32C covers everything from attributes on, so the base
offset and the leader epoch may be patched without touching it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from towpath.objects.store import Buffer

HEADER_SIZE_BYTES = 61
LENGTH_PREFIX_BYTES = 12
"""`batchLength` counts what follows the first 12 bytes."""
MAGIC = 2
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
MAX_TIMESTAMP_AT = 35
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

ATTRIBUTE_COMPRESSION_MASK = 0x07
ATTRIBUTE_LOG_APPEND_TIME = 0x08
ATTRIBUTE_TRANSACTIONAL = 0x10
ATTRIBUTE_CONTROL = 0x20
ATTRIBUTE_DELETE_HORIZON = 0x40

HEADER = struct.Struct(">qiibIhiqqqhii")
"""Every header field, in order."""
_OFFSET_LENGTH_EPOCH = struct.Struct(">qii")


class BatchHeader(NamedTuple):
    """The fields of a batch header as they stand in the bytes."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch's size."""
        return self.batch_length + LENGTH_PREFIX_BYTES

    @property
    def compression(self) -> int:
        return self.attributes & ATTRIBUTE_COMPRESSION_MASK


def parse_header(data: Buffer, at: int = 0) -> BatchHeader:
    """The header at `at`; struct.error if fewer than 61 bytes are left."""
    return BatchHeader._make(HEADER.unpack_from(data, at))


class BatchInfo(NamedTuple):
    """A validated batch, ready to be appended.

    `data` is the whole batch as stored. `min_timestamp_ms` and `max_timestamp_ms` are true bounds
    of its records' timestamps. `producer_id` is -1 unless the producer is idempotent.
    """

    data: Buffer
    record_count: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        """The last record's sequence; sequences wrap from 2^31-1 to 0."""
        return (self.base_sequence + self.record_count - 1) & 0x7FFF_FFFF


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write the base offset and leader epoch that readers shall see into a whole batch; no checksum
    covers them."""
    length = len(batch) - LENGTH_PREFIX_BYTES
    _OFFSET_LENGTH_EPOCH.pack_into(batch, 0, base_offset, length, leader_epoch)
