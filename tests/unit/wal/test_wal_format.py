"""WAL objects round-trip, and nothing that is not exactly one is ever read."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from towpath.log.object import wal_format
from towpath.log.object.wal_format import (
    FOOTER,
    HEADER,
    INDEX_ROW,
    IndexRow,
    WalFormatError,
    WalImage,
    decode_chunk,
    decode_header,
    decode_wal,
    encode_wal,
    staging_path_prefix,
    wal_path,
)
from towpath.metadata.keys.wal import StagingBlock
from towpath.records.batch import BatchInfo, parse_header, stamp
from towpath.records.build import NewRecord, build_batch

WAL_ID = uuid.UUID("6b4c8f5e-1d2a-4b3c-9d4e-5f6071800002")
U32_MAX = 0xFFFF_FFFF
U64_MAX = 0xFFFF_FFFF_FFFF_FFFF


def batch(count: int = 1, size: int = 3, timestamp_ms: int = 1000) -> BatchInfo:
    records = [NewRecord(b"v" * size, None, timestamp_ms + i) for i in range(count)]
    return BatchInfo(build_batch(records), count, timestamp_ms, timestamp_ms + count - 1)


def joined(image: WalImage) -> bytes:
    return b"".join(image.parts)


def small_object() -> bytes:
    return joined(encode_wal(WAL_ID, 2, 99, [(7, [batch(2), batch()]), (3, [batch(1, 0)])]))


def sealed(content: bytes) -> bytes:
    """Any content with the checksum it calls for."""
    return content + FOOTER.pack(crc32c(content))


batches = st.builds(batch, st.integers(1, 4), st.integers(0, 40), st.integers(-(1 << 40), 1 << 40))
chunk_maps = st.dictionaries(
    st.integers(0, U64_MAX), st.lists(batches, min_size=1, max_size=3), min_size=1, max_size=5
)


@given(chunk_maps, st.integers(0, U32_MAX), st.integers(-(1 << 63), (1 << 63) - 1), st.uuids())
def test_round_trip(
    chunks: dict[int, list[BatchInfo]], domain: int, created_at_ms: int, wal_id: uuid.UUID
) -> None:
    image = encode_wal(wal_id, domain, created_at_ms, list(chunks.items()))
    data = joined(image)
    assert image.size_bytes == len(data)
    decoded = decode_wal(data)
    assert decoded.header.wal_id == wal_id
    assert decoded.header.domain == domain
    assert decoded.header.created_at_ms == created_at_ms
    assert [chunk.index.stream_id for chunk in decoded.chunks] == sorted(chunks)
    for found, laid in zip(decoded.chunks, image.chunks, strict=True):
        written = chunks[laid.stream_id]
        assert found.index == laid.index_row()
        assert [bytes(view) for view in found.batches] == [info.data for info in written]
        assert laid.record_count == sum(info.record_count for info in written)
        assert laid.min_timestamp_ms == min(info.min_timestamp_ms for info in written)
        assert laid.max_timestamp_ms == max(info.max_timestamp_ms for info in written)
        for row, info in zip(laid.rows, written, strict=True):
            at = laid.chunk_offset + row.offset_in_chunk
            assert data[at : at + row.length] == info.data
            assert data[at - 4 : at] == struct.pack(">I", row.length)


def test_sizes_of_the_fixed_parts() -> None:
    assert HEADER.size == 49
    assert INDEX_ROW.size == 44
    assert FOOTER.size == 4


def test_a_ranged_reader_needs_header_row_and_chunk_only() -> None:
    image = encode_wal(WAL_ID, 0, 5, [(1, [batch(), batch(3)])])
    data = joined(image)
    header = decode_header(memoryview(data)[:49])
    row = IndexRow._make(INDEX_ROW.unpack_from(data, header.chunk_index_offset))
    chunk = decode_chunk(data[row.chunk_offset : row.chunk_offset + row.chunk_length], row)
    assert len(chunk.batches) == 2


def test_large_batches_are_not_copied_and_small_ones_are_joined() -> None:
    large = batch(1, wal_format.JOIN_BELOW_BYTES)
    small = [batch() for _ in range(100)]
    image = encode_wal(WAL_ID, 0, 0, [(1, small), (2, [large]), (3, small)])
    assert sum(part is large.data for part in image.parts) == 1
    assert len(image.parts) == 4
    assert decode_wal(joined(image)).header.chunk_count == 3


def test_views_and_bytearrays_are_written() -> None:
    info = batch()
    viewed = [
        BatchInfo(memoryview(bytearray(info.data)), 1, 0, 0),
        BatchInfo(bytearray(info.data), 1, 0, 0),
    ]
    chunk = decode_wal(joined(encode_wal(WAL_ID, 0, 0, [(1, viewed)]))).chunks[0]
    assert [bytes(found) for found in chunk.batches] == [info.data] * 2


# What the encoder refuses


@pytest.mark.parametrize(
    ("domain", "chunks"),
    [
        (0, []),
        (0, [(1, [])]),
        (0, [(1, [batch()]), (2, [])]),
        (0, [(1, [batch()]), (1, [batch()])]),
        (-1, [(1, [batch()])]),
        (1 << 32, [(1, [batch()])]),
        (0, [(-1, [batch()])]),
        (0, [(1 << 64, [batch()])]),
        (0, [(1, [BatchInfo(b"x", 1 << 32, 0, 0)])]),
    ],
    ids=[
        "no chunks",
        "empty chunk",
        "one empty chunk",
        "stream twice",
        "negative domain",
        "domain beyond 32 bits",
        "negative stream",
        "stream beyond 64 bits",
        "records beyond 32 bits",
    ],
)
def test_the_encoder_refuses(domain: int, chunks: list[tuple[int, list[BatchInfo]]]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        encode_wal(WAL_ID, domain, 0, chunks)


# What the decoder refuses


def test_every_flipped_bit_is_found() -> None:
    data = small_object()
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WalFormatError):
            decode_wal(flipped)


def test_every_truncation_is_found() -> None:
    data = small_object()
    for size in range(len(data)):
        with pytest.raises(WalFormatError):
            decode_wal(data[:size])


@given(st.binary(min_size=1, max_size=80))
def test_trailing_bytes_are_found(tail: bytes) -> None:
    with pytest.raises(WalFormatError, match="header says"):
        decode_wal(small_object() + tail)


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(WalFormatError):
        decode_wal(data)
    with pytest.raises(WalFormatError):
        decode_wal(wal_format.MAGIC + b"\x00\x01" + data)


@given(st.data())
@settings(max_examples=300)
def test_sealed_mutations_never_crash(data: st.DataObject) -> None:
    content = bytearray(small_object()[:-4])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    try:
        decode_wal(sealed(bytes(content)))
    except WalFormatError:
        pass


def rewritten(change: Callable[[bytearray, int], None]) -> bytes:
    """The small object, changed at or from its chunk index, with its checksum set right."""
    content = bytearray(small_object()[:-4])
    change(content, decode_header(content).chunk_index_offset)
    return sealed(bytes(content))


def put(layout: str, at: int, *values: int) -> Callable[[bytearray, int], None]:
    def change(content: bytearray, index_at: int) -> None:
        struct.pack_into(layout, content, index_at + at if at >= 0 else -at, *values)

    return change


def swap_rows(content: bytearray, index_at: int) -> None:
    first = content[index_at : index_at + 44]
    content[index_at : index_at + 44] = content[index_at + 44 : index_at + 88]
    content[index_at + 44 : index_at + 88] = first


FIRST_CHUNK_AT = 49
FAULTS = [
    ("magic", lambda content, _: content.__setitem__(0, 0x45), "magic"),
    ("version", put(">H", -7, 2), "version 2"),
    ("no chunks", put(">I", -37, 0), "no chunks"),
    ("more chunks", put(">I", -37, 3), "header says"),
    ("index in the header", put(">Q", -41, 48), "inside the header"),
    ("index beyond the object", put(">Q", -41, U64_MAX), "header says"),
    ("unsorted", swap_rows, "starts at|follows"),
    ("stream twice", put(">Q", 44, 3), "follows"),
    ("chunk in the header", put(">Q", 8, 48), "starts at"),
    ("gap", put(">Q", 44 + 8, 300), "starts at"),
    ("chunk too short", put(">I", 44 + 16, 4), "chunks end at"),
    ("batch count", put(">I", 24, 2), "batches"),
    ("no batches", put(">I", 24, 0), "impossible"),
    ("record count", put(">I", 20, 2), "records"),
    ("min above max", put(">q", 28, 5000), "impossible"),
    ("batch longer than chunk", put(">I", -FIRST_CHUNK_AT, 5000), "cut off"),
    ("batch shorter than its header", put(">I", -FIRST_CHUNK_AT, 10), "less than a batch header"),
    ("batch disagrees with itself", put(">i", -(FIRST_CHUNK_AT + 4 + 8), 60), "own header"),
    ("batch of old magic", put(">b", -(FIRST_CHUNK_AT + 4 + 16), 1), "magic 1"),
    ("batch without records", put(">i", -(FIRST_CHUNK_AT + 4 + 57), 0), "0 records"),
]


@pytest.mark.parametrize(
    ("change", "message"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_each_fault_is_named(change: Callable[[bytearray, int], None], message: str) -> None:
    with pytest.raises(WalFormatError, match=message):
        decode_wal(rewritten(change))


def test_length_cut_off_at_the_end_of_a_chunk() -> None:
    info = batch()
    data = struct.pack(">I", len(info.data)) + bytes(info.data) + b"\x00\x00"
    with pytest.raises(WalFormatError, match="inside a length"):
        decode_chunk(data, IndexRow(1, 49, len(data), 1, 1, 0, 0))


def test_a_chunk_of_another_length() -> None:
    with pytest.raises(WalFormatError, match="its row says"):
        decode_chunk(b"", IndexRow(1, 49, 10, 1, 1, 0, 0))


# Patching


@given(st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 31) - 1), st.integers(1, 5))
def test_patching_offset_and_epoch_keeps_the_batch_crc(
    base_offset: int, leader_epoch: int, count: int
) -> None:
    decoded = decode_wal(joined(encode_wal(WAL_ID, 0, 0, [(1, [batch(count)])])))
    stored = decoded.chunks[0].batches[0]
    served = bytearray(stored)
    stamp(served, base_offset, leader_epoch)
    header = parse_header(served)
    assert (header.base_offset, header.leader_epoch) == (base_offset, leader_epoch)
    assert header.crc == parse_header(stored).crc == crc32c(served[21:])
    assert header.size_bytes == len(served) == len(stored)


# Domains


def test_an_object_has_one_domain() -> None:
    for domain in (0, 1, U32_MAX):
        data = joined(encode_wal(WAL_ID, domain, 0, [(1, [batch()]), (2, [batch()])]))
        assert decode_wal(data).header.domain == domain
        assert decode_header(data).domain == domain


# Paths


def test_path() -> None:
    assert wal_path("prod/eu", "eu-1a", 12, "2026/03/09", WAL_ID) == (
        "prod/eu/wal/v1/zone=eu-1a/domain=12/date=2026/03/09/"
        "6b4c8f5e-1d2a-4b3c-9d4e-5f6071800002.wo"
    )


def test_staging_prefix_is_everything_before_the_wal_id() -> None:
    prefix = staging_path_prefix("c", "z", 0, "2026/12/31")
    marker = StagingBlock(prefix, created_at_ms=1, broker_id=1)
    assert f"{marker.path_prefix}{WAL_ID}.wo" == wal_path("c", "z", 0, "2026/12/31", WAL_ID)


@pytest.mark.parametrize(
    ("prefix", "zone", "domain", "date"),
    [
        ("", "z", 0, "2026/01/01"),
        ("/c", "z", 0, "2026/01/01"),
        ("c/", "z", 0, "2026/01/01"),
        ("c//d", "z", 0, "2026/01/01"),
        ("../c", "z", 0, "2026/01/01"),
        ("c", "", 0, "2026/01/01"),
        ("c", "a/b", 0, "2026/01/01"),
        ("c", "a\nb", 0, "2026/01/01"),
        ("c", "z", -1, "2026/01/01"),
        ("c", "z", 0, "2026-01-01"),
        ("c", "z", 0, "2026/1/1"),
        ("c", "z", 0, "2026/01/01/"),
    ],
)
def test_unclean_paths_are_refused(prefix: str, zone: str, domain: int, date: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        wal_path(prefix, zone, domain, date, WAL_ID)
