"""Every codec decodes what Kafka clients send, all of it, and within the limit."""

from __future__ import annotations

import gzip
import os
import struct
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from towpath.errors import BatchTooLarge, CorruptBatch, UnsupportedCompression
from towpath.records import compression, zstd
from towpath.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress

CODECS = (GZIP, SNAPPY, LZ4, ZSTD)
LIMIT = 1 << 20
SAMPLE = b"towpath " * 40 + os.urandom(200)


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def streamed_zstd(data: bytes, level: int = 3) -> bytes:
    """As Java writes it: the content size is not in the frame's header."""
    stream = zstandard.ZstdCompressor(level=level).compressobj()
    return stream.compress(data) + stream.flush()


@given(st.sampled_from((NONE, *CODECS)), st.binary(min_size=1, max_size=5000))
def test_round_trip(codec: int, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data), LIMIT)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_large_data_round_trips_and_views_are_taken(codec: int) -> None:
    data = os.urandom(1000) * 3000
    packed = memoryview(bytearray(compress(codec, data)))
    assert bytes(decompress(codec, packed, len(data))) == data


def test_uncompressed_data_is_not_copied() -> None:
    view = memoryview(SAMPLE)
    assert decompress(NONE, view, 1) is view


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codecs_are_refused(codec: int) -> None:
    with pytest.raises(UnsupportedCompression):
        decompress(codec, b"x", LIMIT)
    with pytest.raises(UnsupportedCompression):
        compress(codec, b"x")


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_exact(codec: int) -> None:
    packed = compress(codec, SAMPLE)
    assert bytes(decompress(codec, packed, len(SAMPLE))) == SAMPLE
    with pytest.raises(BatchTooLarge):
        decompress(codec, packed, len(SAMPLE) - 1)


@pytest.mark.parametrize(
    "packed",
    [streamed_zstd(SAMPLE), streamed_zstd(SAMPLE, 22), zstandard.compress(SAMPLE)],
    ids=["streamed", "level-22", "sized"],
)
def test_zstd_limit_with_and_without_content_size(packed: bytes) -> None:
    assert decompress(ZSTD, packed, len(SAMPLE)) == SAMPLE
    with pytest.raises(BatchTooLarge):
        decompress(ZSTD, packed, len(SAMPLE) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_every_truncation_is_refused(codec: int) -> None:
    packed = compress(codec, SAMPLE)
    for size in range(len(packed)):
        # Snappy framing may end cleanly at its header; there is no data in it then.
        if codec == SNAPPY and size == 16:
            assert bytes(decompress(codec, packed[:size], LIMIT)) == b""
            continue
        with pytest.raises((CorruptBatch, UnsupportedCompression)):
            decompress(codec, packed[:size], LIMIT)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("tail", [b"\x00", b"garbage", b"\x00" * 16])
def test_bytes_behind_the_data_are_refused(codec: int, tail: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, compress(codec, SAMPLE) + tail, LIMIT)


@given(st.sampled_from(CODECS), st.binary(max_size=200))
@settings(max_examples=300)
def test_random_bytes_decode_or_are_refused(codec: int, data: bytes) -> None:
    try:
        decompress(codec, data, LIMIT)
    except (CorruptBatch, BatchTooLarge, UnsupportedCompression):
        pass


@given(st.sampled_from(CODECS), st.integers(0, 10_000), st.integers(1, 255))
@settings(max_examples=400)
def test_damaged_data_decodes_or_is_refused(codec: int, at: int, flip: int) -> None:
    packed = bytearray(compress(codec, SAMPLE))
    packed[at % len(packed)] ^= flip
    compression.expansion_bound(codec, bytes(packed))
    try:
        assert len(decompress(codec, bytes(packed), LIMIT)) <= LIMIT
    except (CorruptBatch, BatchTooLarge, UnsupportedCompression):
        pass


@pytest.mark.parametrize("codec", CODECS)
def test_bombs_allocate_no_more_than_the_limit(codec: int) -> None:
    bomb = compress(codec, bytes(64 << 20))
    limit = 1 << 20
    tracemalloc.start()
    with pytest.raises(BatchTooLarge):
        decompress(codec, bomb, limit)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Input pieces and output steps of at most a few times the input are on top.
    assert peak < 2 * limit + 6 * len(bomb)


@given(st.sampled_from(CODECS), st.binary(min_size=1, max_size=3000), st.integers(1, 40))
def test_expansion_bound_holds(codec: int, data: bytes, times: int) -> None:
    packed = compress(codec, data * times)
    assert compression.expansion_bound(codec, packed) >= len(data) * times


# gzip


def test_gzip_members_are_joined_and_limited() -> None:
    members = gzip.compress(b"one") + gzip.compress(b"") + gzip.compress(b"two")
    assert decompress(GZIP, members, LIMIT) == b"onetwo"
    with pytest.raises(BatchTooLarge):
        decompress(GZIP, members, 5)
    with pytest.raises(CorruptBatch):
        decompress(GZIP, gzip.compress(b"") * (compression.GZIP_MEMBERS_MAX + 1), LIMIT)


def test_gzip_checksum_is_verified() -> None:
    packed = bytearray(zlib.compress(SAMPLE, wbits=31))
    packed[-8] ^= 1
    with pytest.raises(CorruptBatch):
        decompress(GZIP, packed, LIMIT)


# snappy


def test_snappy_raw_block_as_librdkafka_sends_it() -> None:
    assert bytes(decompress(SNAPPY, raw_snappy(SAMPLE), LIMIT)) == SAMPLE


def test_snappy_xerial_as_java_sends_it() -> None:
    header = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    blocks = b"".join(
        struct.pack(">i", len(block)) + block for block in (raw_snappy(b"abc"), raw_snappy(b"def"))
    )
    assert bytes(decompress(SNAPPY, header + blocks, LIMIT)) == b"abcdef"
    # Streams may be concatenated, and some producers write the versions little-endian.
    other = b"\x82SNAPPY\x00" + struct.pack("<ii", 1, 1)
    assert bytes(decompress(SNAPPY, header + blocks + other + blocks, LIMIT)) == b"abcdef" * 2
    with pytest.raises(BatchTooLarge):
        decompress(SNAPPY, header + blocks, 5)


@pytest.mark.parametrize(
    "tail",
    [struct.pack(">i", -1), struct.pack(">i", 0), struct.pack(">i", 99) + b"x", b"\x00\x00"],
)
def test_snappy_xerial_with_wrong_lengths(tail: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(SNAPPY, b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + tail, LIMIT)


def test_snappy_xerial_of_version_zero() -> None:
    with pytest.raises(CorruptBatch):
        decompress(SNAPPY, b"\x82SNAPPY\x00" + struct.pack(">ii", 0, 1), LIMIT)


def test_snappy_that_lies_about_its_length_allocates_nothing() -> None:
    with pytest.raises(CorruptBatch, match="claims"):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"abc", 1 << 40)


# lz4


def test_lz4_with_block_and_content_checksums() -> None:
    packed = lz4.frame.compress(
        SAMPLE * 500, block_linked=False, block_checksum=True, content_checksum=True
    )
    assert decompress(LZ4, packed, LIMIT) == SAMPLE * 500


def test_lz4_that_java_cannot_read_is_refused() -> None:
    linked = lz4.frame.compress(os.urandom(200_000), block_linked=True)
    with pytest.raises(UnsupportedCompression):
        decompress(LZ4, linked, LIMIT)


def test_lz4_second_frame_is_refused() -> None:
    with pytest.raises(CorruptBatch):
        decompress(LZ4, compress(LZ4, b"one") + compress(LZ4, b"two"), LIMIT)


# zstd


def test_zstd_frames_are_joined_and_limited() -> None:
    skippable = struct.pack("<II", 0x184D2A53, 3) + b"abc"
    frames = streamed_zstd(b"one") + skippable + zstandard.compress(b"two")
    assert decompress(ZSTD, frames, LIMIT) == b"onetwo"
    with pytest.raises(BatchTooLarge):
        decompress(ZSTD, frames, 5)
    with pytest.raises(BatchTooLarge):
        decompress(ZSTD, frames, 3)
    with pytest.raises(CorruptBatch):
        decompress(ZSTD, zstandard.compress(b"") * (zstd.FRAMES_MAX + 1), LIMIT)


def test_zstd_empty_frames() -> None:
    assert decompress(ZSTD, zstandard.compress(b""), LIMIT) == b""
    assert decompress(ZSTD, streamed_zstd(b""), LIMIT) == b""


def test_zstd_that_lies_about_its_content_size() -> None:
    block = (1 | 10 << 3).to_bytes(3, "little") + b"0123456789"
    single_segment_with_8_bytes = bytes([0xE0])
    for claimed in (9, 11, 1 << 50, (1 << 64) - 2, (1 << 64) - 1):
        frame = b"\x28\xb5\x2f\xfd" + single_segment_with_8_bytes + struct.pack("<Q", claimed)
        with pytest.raises(CorruptBatch):
            decompress(ZSTD, frame + block, 1 << 60)


def test_zstd_checksum_is_verified() -> None:
    packed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(SAMPLE))
    assert decompress(ZSTD, packed, LIMIT) == SAMPLE
    packed[-1] ^= 1
    with pytest.raises(CorruptBatch):
        decompress(ZSTD, packed, LIMIT)
