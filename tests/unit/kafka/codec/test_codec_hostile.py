"""Truncated, mutated and hostile bytes; unknown tagged fields; memory ownership."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kafka.codec.helpers_messages import ALL_MESSAGES, random_message

from towpath.kafka.codec import MalformedMessage, decode, encode, encode_chunks
from towpath.kafka.codec.messages.api_versions import ApiVersion, ApiVersionsResponse
from towpath.kafka.codec.messages.create_topics import CreateTopicsRequest
from towpath.kafka.codec.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from towpath.kafka.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from towpath.kafka.codec.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from towpath.kafka.codec.primitives import (
    BY_REFERENCE_BYTES,
    COPY_BELOW_BYTES,
    read_varint,
    varint,
)
from towpath.kafka.codec.schema import ApiMessage

PAIRS = [(cls, v) for _, cls in ALL_MESSAGES for v in {*cls.VERSIONS, cls.FLEXIBLE_SINCE}
         if v <= cls.VERSIONS[1]]  # fmt: skip


def decodes_or_is_malformed(cls: type[ApiMessage], version: int, data: bytes) -> None:
    try:
        decode(cls, version, data)
    except MalformedMessage:
        pass


@pytest.mark.parametrize(("cls", "version"), PAIRS, ids=lambda p: getattr(p, "__name__", str(p)))
def test_truncated_and_mutated_bytes_are_malformed_or_another_message(
    cls: type[ApiMessage], version: int
) -> None:
    chance = random.Random(f"{cls.__name__}{version}")
    data = encode(random_message(chance, cls, version), version)[:3000]
    for _ in range(20):
        decodes_or_is_malformed(cls, version, data[: chance.randrange(len(data) + 1)])
        mutated = bytearray(data)
        for _ in range(min(3, len(mutated))):
            mutated[chance.randrange(len(mutated))] = chance.choice((0, 0x7F, 0x80, 0xFF))
        decodes_or_is_malformed(cls, version, bytes(mutated))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PAIRS), st.binary(max_size=200))
def test_random_bytes_are_malformed_or_a_message(
    pair: tuple[type[ApiMessage], int], data: bytes
) -> None:
    decodes_or_is_malformed(pair[0], pair[1], data)


@pytest.mark.parametrize(
    ("cls", "version", "data"),
    [
        (MetadataRequest, 1, struct.pack(">i", 2**31 - 1)),
        (MetadataRequest, 1, struct.pack(">i", 10) + bytes(19)),
        (MetadataRequest, 12, varint(2**32 - 1)),
        (MetadataRequest, 12, b"\xff\xff\xff\xff\xff\x01"),
        (MetadataRequest, 12, b"\xff\xff\xff\xff\x1f"),
        (CreateTopicsRequest, 2, struct.pack(">i", -1)),
        (ProduceRequest, 3, struct.pack(">hhii", -1, -1, 0, 2**28)),
        (MetadataRequest, 9, varint(2) + varint(2**20) + bytes(100)),
        (MetadataRequest, 1, struct.pack(">ih", 1, 2) + b"\xff\xfe"),
        (MetadataRequest, 1, struct.pack(">ih", 1, -1)),
        (ApiVersionsResponse, 3, b"\0\0\1\0\0\0\0" + varint(2**31)),
        (ApiVersionsResponse, 3, b"\0\0\1\0\0\0\0\1\7\177"),
        (ApiVersionsResponse, 3, b"\0\0\1\0\0\0\0\1\1\7" + bytes(20)),
    ],
    ids=[
        "array of two billion", "array larger than the rest", "compact array of four billion",
        "varint of six bytes", "varint beyond 32 bits", "null in a field that is not nullable",
        "array of structs beyond the rest", "string too long", "not UTF-8", "null element",
        "tagged fields beyond the rest", "unknown tagged field too long", "tagged size wrong",
    ],
)  # fmt: skip
def test_hostile_lengths_are_malformed(cls: type[ApiMessage], version: int, data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode(cls, version, data)


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = ApiVersionsResponse(api_keys=[ApiVersion(api_key=1, max_version=2)])
    data = encode(plain, 3)
    assert data.endswith(b"\0")
    unknown = varint(2) + varint(900) + varint(3) + b"abc" + varint(70_000) + varint(0)
    assert decode(ApiVersionsResponse, 3, data[:-1] + unknown) == plain


def test_bytes_behind_the_message_are_ignored() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    assert decode(MetadataRequest, 12, encode(request, 12) + b"rest") == request


@given(st.integers(0, 2**32 - 1))
def test_varints_round_trip(value: int) -> None:
    encoded = varint(value)
    assert read_varint(memoryview(encoded), 0) == (value, len(encoded))


def produce(records: bytes) -> bytes:
    partitions = [PartitionProduceData(records=records)]
    return encode(ProduceRequest(topic_data=[TopicProduceData(partition_data=partitions)]), 9)


def test_small_records_are_copied_and_large_ones_are_views() -> None:
    small = decode(ProduceRequest, 9, produce(bytes(COPY_BELOW_BYTES - 1)))
    assert type(small.topic_data[0].partition_data[0].records) is bytearray
    data = bytearray(produce(bytes(COPY_BELOW_BYTES)))
    records = decode(ProduceRequest, 9, data).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is data


def test_large_records_are_written_by_reference_and_may_come_in_parts() -> None:
    large, small = bytes(BY_REFERENCE_BYTES), b"small"
    message = decode(FetchResponse, 4, encode(one_partition(b""), 4))
    message.responses[0].partitions[0].records = [large, small, large]
    chunks = encode_chunks(message, 4)
    assert sum(chunk is large for chunk in chunks) == 2
    joined = decode(FetchResponse, 4, b"".join(chunks)).responses[0].partitions[0].records
    assert joined == large + small + large


def one_partition(records: bytes) -> FetchResponse:
    return FetchResponse(
        responses=[FetchableTopicResponse(partitions=[PartitionData(records=records)])]
    )


def test_a_string_that_kafka_cannot_carry_is_refused_when_writing() -> None:
    with pytest.raises(ValueError, match="longer than Kafka allows"):
        encode(MetadataRequest(topics=[MetadataRequestTopic(name="x" * 40_000)]), 12)


def test_versions_without_a_schema_are_refused() -> None:
    with pytest.raises(ValueError, match="no version 99"):
        encode(MetadataRequest(), 99)


def test_fields_have_kafkas_defaults_and_lists_are_not_shared() -> None:
    first, second = ApiVersionsResponse(), ApiVersionsResponse()
    assert first.finalized_features_epoch == -1
    first.api_keys.append(ApiVersion())
    assert second.api_keys == []
