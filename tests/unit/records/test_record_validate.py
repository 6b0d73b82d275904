"""A produced batch is stored as it came or refused with the error that Kafka would give."""

from __future__ import annotations

import os
import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from towpath.errors import (
    BatchError,
    BatchTooLarge,
    CorruptBatch,
    InvalidBatch,
    InvalidTimestamp,
    TransactionalBatch,
    UnsupportedCompression,
    UnsupportedMagic,
)
from towpath.records import build, compression, validate, walk
from towpath.records.batch import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    BatchInfo,
    parse_header,
)
from towpath.records.build import NewRecord, ProducerFields, build_batch, encode_record, seal
from towpath.records.kernels import loader
from towpath.records.validate import ProduceRules, is_large, validate_produce

NOW_MS = 1_700_000_000_000
RULES = ProduceRules(
    api_version=9,
    max_message_bytes=1 << 20,
    require_keys=False,
    log_append_time=False,
    now_ms=NOW_MS,
    timestamp_before_max_ms=(1 << 63) - 1,
    timestamp_after_max_ms=3_600_000,
    decompressed_max_bytes=16 << 20,
)
CODECS = range(len(compression.NAMES))
ONE = NewRecord(b"value", b"key", NOW_MS)


@pytest.fixture(params=["python", "kernel"], autouse=True)
def walker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs before and after the kernel is loaded."""
    compiled = loader.load() if request.param == "kernel" else None
    monkeypatch.setattr(loader, "_loaded", compiled)


def rules(**changes: int) -> ProduceRules:
    return RULES._replace(**changes)  # type: ignore[arg-type]


def changed(batch: bytes, at: int, new: bytes) -> bytes:
    """The batch with some bytes replaced and its CRC set right."""
    copy = bytearray(batch)
    copy[at : at + len(new)] = new
    return build.reseal(copy)


# What is taken


@pytest.mark.parametrize("codec", CODECS)
def test_a_good_batch_is_taken_as_it_is(codec: int) -> None:
    records = [
        NewRecord(b"a", None, NOW_MS + 5, (("h", None), ("ü", b"x"))),
        NewRecord(None, b"k", NOW_MS - 9),
        NewRecord(b"", b"", NOW_MS),
    ]
    batch = memoryview(build_batch(records, codec=codec))
    info = validate_produce(batch, RULES)
    assert info.data is batch
    assert info == BatchInfo(batch, 3, NOW_MS - 9, NOW_MS + 5)


def test_producer_fields_are_handed_on() -> None:
    batch = build_batch([ONE, ONE], producer=ProducerFields(7, 2, 0x7FFF_FFFF))
    info = validate_produce(batch, RULES)
    assert (info.producer_id, info.producer_epoch, info.base_sequence) == (7, 2, 0x7FFF_FFFF)
    assert info.last_sequence == 0


@pytest.mark.parametrize("producer", [ProducerFields(-1, 3, 4), ProducerFields(-5, 3, 4)])
def test_fields_without_a_producer_id_mean_nothing(producer: ProducerFields) -> None:
    info = validate_produce(build_batch([ONE], producer=producer), RULES)
    assert (info.producer_id, info.producer_epoch, info.base_sequence) == (-1, -1, -1)


def test_a_wrong_greatest_timestamp_stays_but_the_bounds_are_true() -> None:
    batch = changed(build_batch([ONE]), 35, struct.pack(">q", 5))
    info = validate_produce(batch, RULES)
    assert bytes(info.data) == batch
    assert (info.min_timestamp_ms, info.max_timestamp_ms) == (NOW_MS, NOW_MS)


def test_leader_epoch_and_unused_attributes_are_ignored() -> None:
    batch = changed(build_batch([ONE]), 12, struct.pack(">i", 99))
    validate_produce(changed(batch, 21, struct.pack(">H", 0xFF40)), RULES)


# Shape


@pytest.mark.parametrize("records", [None, b"", b"x" * 11, bytes(8) + b"\x00\x00\x00\x31" + b"x"])
def test_no_whole_batch(records: bytes | None) -> None:
    with pytest.raises(InvalidBatch):
        validate_produce(records, RULES)


def test_every_truncation_is_invalid() -> None:
    batch = build_batch([ONE])
    for size in range(len(batch)):
        with pytest.raises(InvalidBatch):
            validate_produce(batch[:size], RULES)


def test_two_batches() -> None:
    with pytest.raises(InvalidBatch, match="more than one"):
        validate_produce(build_batch([ONE]) * 2, RULES)


@pytest.mark.parametrize("tail", [b"\x00", b"x" * 40, build_batch([ONE])[:-1]])
def test_bytes_behind_the_batch(tail: bytes) -> None:
    with pytest.raises(CorruptBatch):
        validate_produce(build_batch([ONE]) + tail, RULES)


@pytest.mark.parametrize("magic", [0, 1])
def test_older_magic(magic: int) -> None:
    batch = bytearray(build_batch([ONE]))
    batch[16] = magic
    with pytest.raises(UnsupportedMagic):
        validate_produce(batch, RULES)


def test_older_magic_in_a_small_message() -> None:
    message = bytes(8) + struct.pack(">iIbb", 14, 0, 1, 0) + bytes(8)
    with pytest.raises(UnsupportedMagic):
        validate_produce(message, RULES)


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_unknown_magic(magic: int) -> None:
    batch = bytearray(build_batch([ONE]))
    batch[16] = magic
    with pytest.raises(CorruptBatch):
        validate_produce(batch, RULES)


@pytest.mark.parametrize("length", [-1, 0, 13, -(1 << 31)])
def test_impossible_lengths(length: int) -> None:
    batch = bytearray(build_batch([ONE]))
    batch[8:12] = struct.pack(">i", length)
    with pytest.raises(CorruptBatch):
        validate_produce(batch, RULES)


def test_a_batch_smaller_than_its_header() -> None:
    batch = bytearray(build_batch([ONE])[:60])
    batch[8:12] = struct.pack(">i", 48)
    with pytest.raises(CorruptBatch):
        validate_produce(batch, RULES)


def test_base_offset_must_be_zero() -> None:
    with pytest.raises(InvalidBatch, match="base offset"):
        validate_produce(build_batch([ONE], base_offset=1), RULES)


def test_size_limit_is_exact() -> None:
    batch = build_batch([ONE])
    validate_produce(batch, rules(max_message_bytes=len(batch)))
    with pytest.raises(BatchTooLarge):
        validate_produce(batch, rules(max_message_bytes=len(batch) - 1))


def test_size_is_judged_before_the_checksum() -> None:
    batch = bytearray(build_batch([ONE]))
    batch[-1] ^= 1
    with pytest.raises(BatchTooLarge):
        validate_produce(batch, rules(max_message_bytes=10))
    with pytest.raises(CorruptBatch):
        validate_produce(batch, RULES)


def test_every_flipped_bit_under_the_checksum_is_found() -> None:
    batch = build_batch([ONE])
    for bit in range(17 * 8, len(batch) * 8):
        flipped = bytearray(batch)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BatchError):
            validate_produce(flipped, RULES)


# Attributes and counts


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_compression(codec: int) -> None:
    batch = seal(b"x", attributes=codec, record_count=1, last_offset_delta=0)
    with pytest.raises(UnsupportedCompression):
        validate_produce(batch, RULES)


def test_zstd_needs_produce_7() -> None:
    batch = build_batch([ONE], codec=compression.ZSTD)
    validate_produce(batch, rules(api_version=7))
    with pytest.raises(UnsupportedCompression):
        validate_produce(batch, rules(api_version=6))


@pytest.mark.parametrize(
    ("attributes", "error"),
    [
        (ATTRIBUTE_CONTROL, InvalidBatch),
        (ATTRIBUTE_CONTROL | ATTRIBUTE_TRANSACTIONAL, InvalidBatch),
        (ATTRIBUTE_TRANSACTIONAL, TransactionalBatch),
        (ATTRIBUTE_LOG_APPEND_TIME, InvalidTimestamp),
    ],
)
@pytest.mark.parametrize("log_append_time", [False, True])
def test_flags_that_producers_may_not_set(
    attributes: int, error: type[BatchError], log_append_time: bool
) -> None:
    batch = changed(build_batch([ONE]), 21, struct.pack(">h", attributes))
    with pytest.raises(error):
        validate_produce(batch, rules(log_append_time=log_append_time))


@pytest.mark.parametrize(
    ("count", "last_delta"), [(0, -1), (-1, -2), (1, 1), (2, 0), (2, 1), (0, 0)]
)
def test_counts_that_disagree(count: int, last_delta: int) -> None:
    payload = encode_record(ONE, 0, 0)
    batch = seal(payload, record_count=count, last_offset_delta=last_delta)
    with pytest.raises(InvalidBatch):
        validate_produce(batch, RULES)


def test_a_batch_of_no_records() -> None:
    with pytest.raises(InvalidBatch):
        validate_produce(build.empty_batch(0, 0), RULES)


@pytest.mark.parametrize("producer", [ProducerFields(0, 0, -1), ProducerFields(5, -1, 0)])
def test_idempotent_producers_need_epoch_and_sequence(producer: ProducerFields) -> None:
    with pytest.raises(InvalidBatch):
        validate_produce(build_batch([ONE], producer=producer), RULES)


# Records


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("deltas", [(1,), (0, 0), (1, 0), (0, 2), (0, -1)])
def test_offset_deltas_must_count_up_from_zero(codec: int, deltas: tuple[int, ...]) -> None:
    payload = b"".join(encode_record(ONE, delta, 0) for delta in deltas)
    batch = seal(
        compression.compress(codec, payload),
        attributes=codec,
        record_count=len(deltas),
        last_offset_delta=len(deltas) - 1,
        base_timestamp_ms=NOW_MS,
    )
    with pytest.raises(InvalidBatch, match="offset delta"):
        validate_produce(batch, RULES)


@pytest.mark.parametrize("codec", CODECS)
def test_records_must_fill_the_batch(codec: int) -> None:
    payload = encode_record(ONE, 0, 0)
    for wrong in (payload + b"\x00", payload[:-1], payload * 2):
        batch = seal(
            compression.compress(codec, wrong),
            attributes=codec,
            record_count=1,
            last_offset_delta=0,
            base_timestamp_ms=NOW_MS,
        )
        with pytest.raises(InvalidBatch):
            validate_produce(batch, RULES)


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != compression.NONE])
def test_compressed_bytes_must_decode(codec: int) -> None:
    packed = compression.compress(codec, encode_record(ONE, 0, 0))
    for wrong in (packed[:-1], packed + b"\x01", os.urandom(30)):
        batch = seal(wrong, attributes=codec, record_count=1, last_offset_delta=0)
        with pytest.raises(CorruptBatch):
            validate_produce(batch, RULES)


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != compression.NONE])
def test_decompressed_size_is_limited(codec: int) -> None:
    batch = build_batch([NewRecord(bytes(1 << 16), timestamp_ms=NOW_MS)], codec=codec)
    with pytest.raises(BatchTooLarge):
        validate_produce(batch, rules(decompressed_max_bytes=1 << 16))


def test_header_keys_must_be_utf8() -> None:
    good = build_batch([NewRecord(b"v", timestamp_ms=NOW_MS, headers=(("abc", b"x"),))])
    with pytest.raises(InvalidBatch, match="UTF-8"):
        validate_produce(changed(good, good.index(b"abc"), b"a\xffc"), RULES)


def test_compacted_topics_need_keys() -> None:
    keyed = build_batch([ONE, NewRecord(b"v", b"", NOW_MS)])
    validate_produce(keyed, rules(require_keys=True))
    keyless = build_batch([ONE, NewRecord(b"v", None, NOW_MS)])
    validate_produce(keyless, RULES)
    for log_append_time in (False, True):
        with pytest.raises(InvalidBatch, match="key"):
            validate_produce(keyless, rules(require_keys=True, log_append_time=log_append_time))


# Timestamps


@pytest.mark.parametrize(
    ("offset_ms", "fits"), [(0, True), (500, True), (501, False), (-1000, True), (-1001, False)]
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_timestamp_range_is_exact(offset_ms: int, fits: bool, place: int) -> None:
    records = [ONE, ONE, ONE]
    records[place] = NewRecord(b"v", None, NOW_MS + offset_ms)
    batch = build_batch(records)
    limits = rules(timestamp_before_max_ms=1000, timestamp_after_max_ms=500)
    if fits:
        validate_produce(batch, limits)
        return
    with pytest.raises(InvalidTimestamp):
        validate_produce(batch, limits)


def test_no_timestamp_is_always_taken() -> None:
    limits = rules(timestamp_before_max_ms=0, timestamp_after_max_ms=0)
    info = validate_produce(build_batch([NewRecord(b"v", timestamp_ms=-1)]), limits)
    assert (info.min_timestamp_ms, info.max_timestamp_ms) == (-1, -1)
    mixed = build_batch([NewRecord(b"v", timestamp_ms=-1), ONE])
    info = validate_produce(mixed, limits)
    assert (info.min_timestamp_ms, info.max_timestamp_ms) == (-1, NOW_MS)
    hidden = build_batch([NewRecord(b"v", timestamp_ms=-1), NewRecord(b"v", timestamp_ms=5)])
    with pytest.raises(InvalidTimestamp):
        validate_produce(hidden, limits)


def test_other_negative_timestamps_are_judged_like_any() -> None:
    batch = build_batch([NewRecord(b"v", timestamp_ms=-2)])
    assert validate_produce(batch, RULES).min_timestamp_ms == -2
    with pytest.raises(InvalidTimestamp):
        validate_produce(batch, rules(timestamp_before_max_ms=NOW_MS))


@pytest.mark.parametrize("sign", [1, -1])
def test_timestamps_must_fit_the_table(sign: int) -> None:
    wide = rules(timestamp_after_max_ms=(1 << 63) - 1)
    largest_ms = ((1 << 63) - 1) // 1000
    validate_produce(build_batch([NewRecord(b"v", timestamp_ms=sign * largest_ms)]), wide)
    with pytest.raises(InvalidTimestamp):
        validate_produce(build_batch([NewRecord(b"v", timestamp_ms=sign * (largest_ms + 1))]), wide)


def test_timestamp_that_overflows() -> None:
    payload = encode_record(ONE, 0, 1)
    batch = seal(payload, record_count=1, last_offset_delta=0, base_timestamp_ms=walk.INT64_MAX)
    with pytest.raises(InvalidTimestamp):
        validate_produce(batch, RULES)
    assert validate_produce(batch, rules(log_append_time=True)).max_timestamp_ms == NOW_MS


def test_a_bad_timestamp_outranks_a_missing_key_of_another_record() -> None:
    limits = rules(require_keys=True, timestamp_before_max_ms=10)
    keyless, stale = NewRecord(b"v", None, NOW_MS), NewRecord(b"v", b"k", 5)
    with pytest.raises(InvalidTimestamp):
        validate_produce(build_batch([keyless, stale]), limits)
    with pytest.raises(InvalidBatch):
        validate_produce(build_batch([ONE, NewRecord(b"v", None, 5)]), limits)


# LogAppendTime


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_rewrites_a_copy(codec: int) -> None:
    records = [NewRecord(b"a", b"k", 12), NewRecord(b"b", b"l", 34)]
    batch = build_batch(records, codec=codec, producer=ProducerFields(1, 2, 3))
    before = bytes(batch)
    limits = rules(log_append_time=True, timestamp_before_max_ms=0, timestamp_after_max_ms=0)
    info = validate_produce(batch, limits)
    assert batch == before
    assert (info.min_timestamp_ms, info.max_timestamp_ms) == (NOW_MS, NOW_MS)
    assert (info.producer_id, info.producer_epoch, info.base_sequence) == (1, 2, 3)
    old, new = parse_header(batch), parse_header(info.data)
    assert new == old._replace(
        attributes=codec | ATTRIBUTE_LOG_APPEND_TIME, max_timestamp_ms=NOW_MS, crc=new.crc
    )
    assert new.crc == crc32c(bytes(info.data[21:]))
    assert bytes(info.data[61:]) == batch[61:]
    assert [record.timestamp_ms for record in walk.iterate(info.data)] == [NOW_MS, NOW_MS]


# Robustness and size


@given(st.binary(max_size=150))
@settings(max_examples=200)
def test_random_bytes_are_refused(records: bytes) -> None:
    is_large(records)
    with pytest.raises(BatchError):
        validate_produce(records, RULES)


@given(st.sampled_from(CODECS), st.integers(0, 10_000), st.integers(0, 255))
@settings(max_examples=300)
def test_resealed_mutations_are_taken_or_refused(codec: int, at: int, byte: int) -> None:
    batch = build_batch([ONE, NewRecord(b"v" * 50, None, NOW_MS, (("h", b"x"),))], codec=codec)
    mutated = changed(batch, 21 + at % (len(batch) - 21), bytes([byte]))
    is_large(mutated)
    try:
        info = validate_produce(mutated, RULES)
    except BatchError:
        return
    assert len(list(walk.iterate(info.data))) == info.record_count


def test_is_large() -> None:
    assert not is_large(b"")
    assert not is_large(build_batch([ONE]))
    value = os.urandom(validate.LARGE_BYTES)
    assert is_large(build_batch([NewRecord(value)]))
    assert not is_large(build_batch([NewRecord(value[: validate.LARGE_BYTES // 2])]))
    for codec in CODECS[1:]:
        assert not is_large(build_batch([ONE] * 20, codec=codec))
    bomb = build_batch([NewRecord(bytes(30 << 20))], codec=compression.ZSTD)
    assert len(bomb) < validate.LARGE_BYTES
    assert is_large(bomb)


def test_many_records_are_large_only_for_python() -> None:
    batch = build_batch([NewRecord(b"")] * (validate.LARGE_RECORD_COUNT + 1))
    assert is_large(batch) is (loader.kernel() is None)
