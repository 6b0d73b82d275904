"""Batches of other clients' encoders are taken, and other clients' decoders read ours."""

from __future__ import annotations

import warnings
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import cramjam
import pytest

from towpath.records import compression, walk
from towpath.records.batch import NO_PRODUCER_ID
from towpath.records.build import NewRecord, ProducerFields, build_batch, empty_batch
from towpath.records.validate import ProduceRules, validate_produce

with warnings.catch_warnings():
    # kafka-python uses a deprecated function while it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec
    import kafka.record.default_records as kafka_python_records

CODECS = range(len(compression.NAMES))
NOW_MS = 1_700_000_000_000
RULES = ProduceRules(9, 1 << 20, False, False, NOW_MS, 1 << 62, 3_600_000, 1 << 24)
RECORDS = [
    NewRecord(b"value-%d" % i * 20, b"key" if i % 3 else None, NOW_MS + i, (("h", b"\xff"),))
    for i in range(200)
] + [NewRecord(None, b"", NOW_MS, (("n", None),))]


class SnappyOverCramjam:
    """kafka-python takes snappy from a library that is not installed here."""

    @staticmethod
    def compress(data: bytes) -> bytes:
        return bytes(cramjam.snappy.compress_raw(data))

    @staticmethod
    def decompress(data: bytes) -> bytes:
        return bytes(cramjam.snappy.decompress_raw(data))


@pytest.fixture(autouse=True)
def snappy_for_kafka_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka.codec, "snappy", SnappyOverCramjam)


MODULES = [kafka_python_records, aiokafka_records]
NAMES = ["kafka-python", "aiokafka"]


def foreign_batch(module: Any, codec: int) -> bytes:
    builder = module.DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for index, record in enumerate(RECORDS):
        builder.append(
            index, record.timestamp_ms, record.key, record.value, headers=list(record.headers)
        )
    return bytes(builder.build())


@pytest.mark.parametrize("codec", CODECS, ids=compression.NAMES)
@pytest.mark.parametrize("module", MODULES, ids=NAMES)
def test_foreign_batches_are_taken(module: Any, codec: int) -> None:
    batch = foreign_batch(module, codec)
    info = validate_produce(batch, RULES)
    assert info.record_count == len(RECORDS)
    assert info.producer_id == NO_PRODUCER_ID
    assert (info.min_timestamp_ms, info.max_timestamp_ms) == (NOW_MS, NOW_MS + 199)
    read = [NewRecord(r.value, r.key, r.timestamp_ms, r.headers) for r in walk.iterate(batch)]
    assert read == RECORDS


@pytest.mark.parametrize("codec", CODECS, ids=compression.NAMES)
@pytest.mark.parametrize("module", MODULES, ids=NAMES)
def test_foreign_decoders_read_ours(module: Any, codec: int) -> None:
    producer = ProducerFields(44, 3, 12)
    batch = module.DefaultRecordBatch(
        bytearray(build_batch(RECORDS, codec=codec, producer=producer, base_offset=1000))
    )
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (44, 3, 12)
    read = list(batch)
    assert [record.offset for record in read] == list(range(1000, 1000 + len(RECORDS)))
    assert [
        NewRecord(
            None if record.value is None else bytes(record.value),
            None if record.key is None else bytes(record.key),
            record.timestamp,
            tuple(record.headers),
        )
        for record in read
    ] == RECORDS


@pytest.mark.parametrize("module", MODULES, ids=NAMES)
def test_foreign_decoders_read_an_empty_batch(module: Any) -> None:
    batch = module.DefaultRecordBatch(bytearray(empty_batch(500, 9, leader_epoch=4)))
    assert batch.validate_crc()
    assert batch.base_offset == 500
    assert batch.next_offset == 510
    assert list(batch) == []


def test_the_same_records_encode_to_the_same_bytes() -> None:
    assert build_batch(RECORDS)[61:] == foreign_batch(aiokafka_records, compression.NONE)[61:]
