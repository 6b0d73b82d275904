"""Readers of foreign bytes without a broker: each takes any bytes and fails in one known way."""

from __future__ import annotations

import struct
from collections.abc import Callable

import crc32c

import towpath.kafka.apis.all  # noqa: F401  (registers every API)
from towpath.errors import BatchError
from towpath.kafka.apis.registry import APIS
from towpath.kafka.codec import MalformedMessage, decode
from towpath.log.object.wal_format import WalFormatError, decode_header, decode_wal
from towpath.records import compression, walk
from towpath.records.batch import ATTRIBUTES_AT, HEADER_SIZE_BYTES
from towpath.records.validate import ProduceRules, is_large, validate_produce

OUTPUT_MAX_BYTES = 1 << 20
"""What a fuzzed batch may decompress to."""

NOW_MS = 1_700_000_000_000


def rules(output_max_bytes: int, batch_max_bytes: int) -> ProduceRules:
    """Rules that forbid nothing but size."""
    return ProduceRules(
        api_version=9,
        max_message_bytes=batch_max_bytes,
        require_keys=False,
        log_append_time=False,
        now_ms=NOW_MS,
        timestamp_before_max_ms=2**63 - 1,
        timestamp_after_max_ms=2**63 - 1,
        decompressed_max_bytes=output_max_bytes,
    )


RULES = rules(OUTPUT_MAX_BYTES, 1 << 20)
READABLE = [
    (message, version)
    for api in APIS.values()
    for message in (api.request_type, api.response_type)
    for version in range(api.min_version, api.max_version + 1)
]


def decode_message(data: bytes) -> None:
    """The first byte chooses the message and version, the rest is decoded."""
    if len(data) < 2:
        return
    message, version = READABLE[struct.unpack_from(">H", data)[0] % len(READABLE)]
    try:
        decode(message, version, data[2:])
    except MalformedMessage:
        return


def validate_batch(data: bytes) -> None:
    """Bytes as a partition's records, as they are."""
    is_large(data)
    try:
        info = validate_produce(data, RULES)
    except BatchError:
        return
    assert info.record_count > 0
    assert len(list(walk.iterate(bytes(info.data)))) == info.record_count


def validate_sealed_batch(data: bytes) -> None:
    """As above with length and checksum made right, so that the records are looked at."""
    validate_batch(sealed(data))


def sealed(data: bytes) -> bytes:
    """The batch with the length and checksum of its bytes."""
    if len(data) < HEADER_SIZE_BYTES:
        return data
    body = data[ATTRIBUTES_AT:]
    head = struct.pack(">qi", 0, len(data) - 12) + data[12:16] + b"\2"
    return head + struct.pack(">I", crc32c.crc32c(body)) + body


def decompress(data: bytes) -> None:
    """The first byte chooses the codec."""
    if not data:
        return
    codec = data[0] % 8
    try:
        found = compression.decompress(codec, data[1:], OUTPUT_MAX_BYTES)
    except BatchError:
        return
    finally:
        if codec < len(compression.NAMES):
            compression.expansion_bound(codec, data[1:])
    if codec != compression.NONE:
        assert len(found) <= OUTPUT_MAX_BYTES


def parse_wal(data: bytes) -> None:
    """A WAL object."""
    for parse in (decode_header, decode_wal):
        try:
            parse(data)
        except WalFormatError:
            continue


TARGETS: dict[str, Callable[[bytes], None]] = {
    "codec": decode_message,
    "batch": validate_batch,
    "sealed-batch": validate_sealed_batch,
    "decompress": decompress,
    "wal": parse_wal,
}
