"""Builds record batches: for tests, simulated clients and ranges that hold no record any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

from towpath.objects.store import Buffer
from towpath.records import compression
from towpath.records.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER,
    HEADER_SIZE_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)

NO_LEADER_EPOCH = -1
NO_PRODUCER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to be written; its offset is its place in the batch."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class ProducerFields:
    """What an idempotent producer writes into a batch."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE


NO_PRODUCER = ProducerFields()


def build_batch(
    records: Sequence[NewRecord],
    *,
    codec: int = compression.NONE,
    producer: ProducerFields = NO_PRODUCER,
    base_offset: int = 0,
) -> bytes:
    """A batch as a producer sends it: base offset 0, no leader epoch, timestamps by CreateTime."""
    if not records:
        raise ValueError("a batch of no records is built with empty_batch")
    base_timestamp_ms = records[0].timestamp_ms
    payload = b"".join(
        [
            encode_record(record, index, record.timestamp_ms - base_timestamp_ms)
            for index, record in enumerate(records)
        ]
    )
    return seal(
        compression.compress(codec, payload),
        attributes=codec,
        record_count=len(records),
        last_offset_delta=len(records) - 1,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max(record.timestamp_ms for record in records),
        producer=producer,
        base_offset=base_offset,
    )


def empty_batch(
    base_offset: int,
    last_offset_delta: int,
    *,
    leader_epoch: int = NO_LEADER_EPOCH,
    timestamp_ms: int = NO_TIMESTAMP,
    producer: ProducerFields = NO_PRODUCER,
) -> bytes:
    """A batch of no records that covers a void range, as Kafka's log cleaner leaves it."""
    return seal(
        b"",
        record_count=0,
        last_offset_delta=last_offset_delta,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer=producer,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def seal(
    payload: Buffer,
    *,
    record_count: int,
    last_offset_delta: int,
    attributes: int = 0,
    base_timestamp_ms: int = 0,
    max_timestamp_ms: int = 0,
    producer: ProducerFields = NO_PRODUCER,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Put a header with the right length and CRC before `payload`; checks nothing else."""
    batch = bytearray(HEADER_SIZE_BYTES + len(payload))
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LENGTH_PREFIX_BYTES,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer.producer_id,
        producer.epoch,
        producer.base_sequence,
        record_count,
    )
    batch[HEADER_SIZE_BYTES:] = payload
    return reseal(batch)


def reseal(batch: bytearray) -> bytes:
    """The batch with the CRC that its bytes call for."""
    checksum = crc32c(memoryview(batch)[ATTRIBUTES_AT:])
    batch[CRC_AT:ATTRIBUTES_AT] = checksum.to_bytes(4, "big")
    return bytes(batch)


def encode_record(record: NewRecord, offset_delta: int, timestamp_delta_ms: int) -> bytes:
    """One record in its own length prefix."""
    body = bytearray(1)
    body += varint(timestamp_delta_ms)
    body += varint(offset_delta)
    body += _nullable(record.key)
    body += _nullable(record.value)
    body += varint(len(record.headers))
    for name, content in record.headers:
        body += _nullable(name.encode())
        body += _nullable(content)
    return varint(len(body)) + bytes(body)


def varint(number: int) -> bytes:
    """A signed number in zigzag form, seven bits a byte, the lowest first."""
    rest = number << 1 if number >= 0 else ~(number << 1)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _nullable(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data
