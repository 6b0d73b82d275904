"""The WAL object, version 1: batches of many streams of one domain, sorted by stream.

All numbers are big-endian:

    header, 49 bytes    magic "DRAYWO1" (7), version u16 = 1, walId uuid (16), metaDomain u32,
                        createdAtUnixMs i64, chunkCount u32, chunkIndexOffset u64
    chunk bodies        per batch: batchLength u32, then the batch; chunks lie without gaps in the
                        order of their stream ids, and a batch is never split
    chunk index         per chunk 44 bytes: streamId u64, chunkOffset u64, chunkLength u32,
                        recordCount u32, batchCount u32, minTimestampMs i64, maxTimestampMs i64
    footer, 4 bytes     CRC32C u32 of everything before it

Objects lie at `<prefix>/wal/v1/zone=<z>/domain=<d>/date=YYYY/MM/DD/<walId>.wo`. Every path starts
with the cluster's prefix, so that several clusters can share a bucket. The zone is for people who
look at the bucket: readers read objects of any zone.

Departure from Ursa. Ursa describes its WAL objects as a row format. Here a chunk holds Kafka record
batches byte for byte as the producer sent them (compressed ones stay compressed), with whatever
base offset and leader epoch they came with. These two fields lie outside a batch's own CRC, so a
fetch answers stored bytes with just those patched, and nothing is encoded twice. The price is that
the compactor must parse and decompress Kafka batches, and that a fetch from Parquet rebuilds them.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from crc32c import crc32c

from towpath.objects.store import Buffer
from towpath.records.batch import HEADER_SIZE_BYTES as BATCH_HEADER_SIZE_BYTES
from towpath.records.batch import LENGTH_PREFIX_BYTES, BatchInfo, parse_header

MAGIC = b"DRAYWO1"
VERSION = 1
HEADER = struct.Struct(">7sH16sIqIQ")
INDEX_ROW = struct.Struct(">QQIIIqq")
BATCH_LENGTH = struct.Struct(">I")
FOOTER = struct.Struct(">I")
BATCH_MAGIC = 2
SUFFIX = ".wo"

U32_MAX = 0xFFFF_FFFF
U64_MAX = 0xFFFF_FFFF_FFFF_FFFF
JOIN_BELOW_BYTES = 8 * 1024
"""Batches below this are copied together into one part: copying them costs less than handing many
small buffers down to the operating system."""


class WalFormatError(Exception):
    """The bytes are not a valid WAL object. The message names what is wrong."""


class BatchRow(NamedTuple):
    """Where a batch lies: its first byte (after the length prefix) relative to its chunk."""

    offset_in_chunk: int
    length: int


class IndexRow(NamedTuple):
    """One row of the chunk index as it stands in the bytes."""

    stream_id: int
    chunk_offset: int
    chunk_length: int
    record_count: int
    batch_count: int
    min_timestamp_ms: int
    max_timestamp_ms: int


class ChunkImage(NamedTuple):
    """One stream's chunk in an encoded object, with a row per batch in the order given."""

    stream_id: int
    chunk_offset: int
    chunk_length: int
    record_count: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    rows: tuple[BatchRow, ...]

    @property
    def batch_count(self) -> int:
        """How many batches the chunk holds."""
        return len(self.rows)

    def index_row(self) -> IndexRow:
        """The chunk's row of the index."""
        return IndexRow(
            self.stream_id,
            self.chunk_offset,
            self.chunk_length,
            self.record_count,
            len(self.rows),
            self.min_timestamp_ms,
            self.max_timestamp_ms,
        )


@dataclass(frozen=True, slots=True)
class WalImage:
    """An encoded object. `parts` concatenated are its bytes; large batches are the caller's own
    buffers, which must stay unchanged as long as the image is used. `chunks` is sorted by stream.
    """

    parts: list[Buffer]
    size_bytes: int
    chunks: tuple[ChunkImage, ...]


@dataclass(frozen=True, slots=True)
class WalHeader:
    """The fixed header."""

    wal_id: uuid.UUID
    domain: int
    created_at_ms: int
    chunk_count: int
    chunk_index_offset: int


@dataclass(frozen=True, slots=True)
class WalChunk:
    """One stream's decoded chunk; `batches` are views into the object's bytes."""

    index: IndexRow
    batches: tuple[memoryview, ...]


@dataclass(frozen=True, slots=True)
class WalObject:
    """A whole decoded object."""

    header: WalHeader
    chunks: tuple[WalChunk, ...]


# Paths

_DATE = re.compile(r"[0-9]{4}/[0-9]{2}/[0-9]{2}")


def staging_path_prefix(prefix: str, zone: str, domain: int, date: str) -> str:
    """Everything before the walId, for all objects of one staging block.

    `date` is `YYYY/MM/DD`. ValueError if the prefix is empty or not a clean relative path, the zone
    is not one segment, or the date has another form.
    """
    if not all(_is_segment(segment) for segment in prefix.split("/")):
        raise ValueError(f"cluster prefix {prefix!r} is not a relative path")
    if not _is_segment(zone):
        raise ValueError(f"zone {zone!r} cannot be part of a path")
    if not 0 <= domain <= U32_MAX or not _DATE.fullmatch(date):
        raise ValueError(f"domain {domain} or date {date!r} cannot be part of a path")
    return f"{prefix}/wal/v1/zone={zone}/domain={domain}/date={date}/"


def wal_path(prefix: str, zone: str, domain: int, date: str, wal_id: uuid.UUID) -> str:
    """The path of one WAL object; the walId stands in its canonical form."""
    return f"{staging_path_prefix(prefix, zone, domain, date)}{wal_id}{SUFFIX}"


def _is_segment(text: str) -> bool:
    return text not in ("", ".", "..") and "/" not in text and text.isprintable()


# Encoding


class _Parts:
    """Collects buffers: small ones are joined, large ones are kept as they are."""

    def __init__(self) -> None:
        self.parts: list[Buffer] = []
        self.size_bytes = 0
        self._crc = 0
        self._small: list[Buffer] = []

    def add(self, data: Buffer) -> None:
        """Append a buffer of the object's own, such as the header."""
        self.size_bytes += len(data)
        self._small.append(data)

    def add_batches(self, batches: Sequence[BatchInfo]) -> None:
        """Append batches, each behind its length."""
        for batch in batches:
            data = batch.data
            size_bytes = len(data)
            self.size_bytes += BATCH_LENGTH.size + size_bytes
            self._small.append(BATCH_LENGTH.pack(size_bytes))
            if size_bytes < JOIN_BELOW_BYTES:
                self._small.append(data)
            else:
                self._join()
                self._take(data)

    def finish(self) -> None:
        """Append the checksum of everything added so far."""
        self._join()
        self.size_bytes += FOOTER.size
        self.parts.append(FOOTER.pack(self._crc))

    def _join(self) -> None:
        if self._small:
            self._take(b"".join(self._small))
            self._small = []

    def _take(self, part: Buffer) -> None:
        self._crc = crc32c(part, self._crc)
        self.parts.append(part)


def encode_wal(
    wal_id: uuid.UUID,
    domain: int,
    created_at_ms: int,
    chunks: Iterable[tuple[int, Sequence[BatchInfo]]],
) -> WalImage:
    """The object that holds `chunks`, pairs of a stream id and its batches in order.

    Chunks may come in any order. ValueError if a stream comes twice, a chunk or the whole is empty,
    or a number does not fit its field; the caller has broken a rule then.
    """
    ordered = sorted(chunks, key=itemgetter(0))
    if not ordered:
        raise ValueError("a WAL object needs at least one chunk")
    if not 0 <= domain <= U32_MAX:
        raise ValueError(f"domain {domain} does not fit 32 bits")
    images, index_offset = _lay_out(ordered)
    parts = _Parts()
    head = HEADER.pack(
        MAGIC, VERSION, wal_id.bytes, domain, created_at_ms, len(images), index_offset
    )
    parts.add(head)
    for _, batches in ordered:
        parts.add_batches(batches)
    parts.add(b"".join([INDEX_ROW.pack(*image.index_row()) for image in images]))
    parts.finish()
    return WalImage(parts.parts, parts.size_bytes, images)


def _lay_out(
    ordered: Sequence[tuple[int, Sequence[BatchInfo]]],
) -> tuple[tuple[ChunkImage, ...], int]:
    """Where each chunk comes to lie, and where the index starts."""
    images = []
    at = HEADER.size
    previous = -1
    for stream_id, batches in ordered:
        if not 0 <= stream_id <= U64_MAX:
            raise ValueError(f"stream id {stream_id} does not fit 64 bits")
        if stream_id == previous:
            raise ValueError(f"stream {stream_id} has two chunks")
        if not batches:
            raise ValueError(f"the chunk of stream {stream_id} is empty")
        previous = stream_id
        image = _lay_out_chunk(stream_id, at, batches)
        images.append(image)
        at += image.chunk_length
    return tuple(images), at


def _lay_out_chunk(stream_id: int, at: int, batches: Sequence[BatchInfo]) -> ChunkImage:
    rows = []
    position = 0
    for batch in batches:
        position += BATCH_LENGTH.size
        rows.append(BatchRow(position, len(batch.data)))
        position += len(batch.data)
    record_count = sum(batch.record_count for batch in batches)
    if position > U32_MAX or record_count > U32_MAX:
        raise ValueError(f"the chunk of stream {stream_id} does not fit its 32-bit fields")
    return ChunkImage(
        stream_id,
        at,
        position,
        record_count,
        min(batch.min_timestamp_ms for batch in batches),
        max(batch.max_timestamp_ms for batch in batches),
        tuple(rows),
    )


# Decoding


def decode_header(data: Buffer) -> WalHeader:
    """The header at the start of `data`, which may hold more or less than the whole object."""
    if len(data) < HEADER.size:
        raise WalFormatError(f"header is cut off after {len(data)} bytes")
    magic, version, wal_id, domain, created_at_ms, chunk_count, index_offset = HEADER.unpack_from(
        data
    )
    if magic != MAGIC:
        raise WalFormatError(f"magic is {magic!r}, not {MAGIC!r}")
    if version != VERSION:
        raise WalFormatError(f"version {version} is unknown; this release reads {VERSION}")
    return WalHeader(uuid.UUID(bytes=wal_id), domain, created_at_ms, chunk_count, index_offset)


def decode_wal(data: Buffer) -> WalObject:
    """Parse a whole object strictly; WalFormatError unless every byte is accounted for.

    The batches are views of `data`, which must stay unchanged as long as they are used. The batches
    themselves are checked by length, magic and record count; their own CRCs are not computed again,
    because the footer covers them.
    """
    view = memoryview(data)
    header = decode_header(view)
    _check_extent(view, header)
    (stored_crc,) = FOOTER.unpack_from(view, len(view) - FOOTER.size)
    actual_crc = crc32c(view[: -FOOTER.size])
    if stored_crc != actual_crc:
        raise WalFormatError(f"checksum is {stored_crc:08x}, the bytes give {actual_crc:08x}")
    rows = _decode_index(view, header)
    chunks = [
        decode_chunk(view[row.chunk_offset : row.chunk_offset + row.chunk_length], row)
        for row in rows
    ]
    return WalObject(header, tuple(chunks))


def _check_extent(view: memoryview, header: WalHeader) -> None:
    if header.chunk_count == 0:
        raise WalFormatError("object has no chunks")
    if header.chunk_index_offset < HEADER.size:
        raise WalFormatError(f"chunk index at {header.chunk_index_offset} lies inside the header")
    expected = header.chunk_index_offset + header.chunk_count * INDEX_ROW.size + FOOTER.size
    if len(view) != expected:
        raise WalFormatError(f"object has {len(view)} bytes, its header says {expected}")


def _decode_index(view: memoryview, header: WalHeader) -> list[IndexRow]:
    """The index rows, proven to be sorted and to cover the bodies without gap or overlap."""
    end = header.chunk_index_offset + header.chunk_count * INDEX_ROW.size
    packed = INDEX_ROW.iter_unpack(view[header.chunk_index_offset : end])
    rows = [IndexRow(*fields) for fields in packed]
    at = HEADER.size
    previous = -1
    for row in rows:
        if row.stream_id <= previous:
            raise WalFormatError(f"stream {row.stream_id} follows {previous} in the chunk index")
        if row.chunk_offset != at:
            raise WalFormatError(
                f"chunk of stream {row.stream_id} starts at {row.chunk_offset}, not at {at}"
            )
        previous = row.stream_id
        at += row.chunk_length
    if at != header.chunk_index_offset:
        raise WalFormatError(f"chunks end at {at}, the index is at {header.chunk_index_offset}")
    return rows


def decode_chunk(data: Buffer, row: IndexRow) -> WalChunk:
    """The batches of one chunk; `data` is exactly the chunk that `row` describes."""
    view = memoryview(data)
    where = f"chunk of stream {row.stream_id}"
    if len(view) != row.chunk_length:
        raise WalFormatError(f"{where} has {len(view)} bytes, its row says {row.chunk_length}")
    if row.batch_count == 0 or row.min_timestamp_ms > row.max_timestamp_ms:
        raise WalFormatError(f"{where} has an impossible row: {row}")
    batches = []
    record_count = 0
    at = 0
    while at < len(view):
        if len(view) - at < BATCH_LENGTH.size:
            raise WalFormatError(f"{where} ends inside a length at {at}")
        (length,) = BATCH_LENGTH.unpack_from(view, at)
        at += BATCH_LENGTH.size
        batch = view[at : at + length]
        record_count += _checked_record_count(batch, length, f"batch at {at} in the {where}")
        batches.append(batch)
        at += length
    if len(batches) != row.batch_count:
        raise WalFormatError(f"{where} has {len(batches)} batches, its row says {row.batch_count}")
    if record_count != row.record_count:
        raise WalFormatError(f"{where} has {record_count} records, its row says {row.record_count}")
    return WalChunk(row, tuple(batches))


def _checked_record_count(batch: memoryview, length: int, where: str) -> int:
    if len(batch) < length:
        raise WalFormatError(f"{where} is cut off after {len(batch)} of {length} bytes")
    if length < BATCH_HEADER_SIZE_BYTES:
        raise WalFormatError(f"{where} has {length} bytes, less than a batch header")
    header = parse_header(batch)
    if header.batch_length + LENGTH_PREFIX_BYTES != length:
        raise WalFormatError(f"{where} has {length} bytes, its own header says {header.size_bytes}")
    if header.magic != BATCH_MAGIC or header.record_count <= 0:
        raise WalFormatError(f"{where} has magic {header.magic} and {header.record_count} records")
    return header.record_count
