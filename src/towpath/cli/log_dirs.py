"""Asks a broker how large partitions are: a DescribeLogDirs v4 request over a blocking socket.

The client library cannot ask this. Towpath adds two tagged fields to each partition of its answer,
the number of objects and the time of the last write; other brokers leave them out.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

API_KEY = 35
API_VERSION = 4
CORRELATION_ID = 1
CLIENT_ID = b"towpath-cli"
OBJECTS_TAG = 10_000
LAST_WRITE_TAG = 10_001
TIMEOUT_SECONDS = 10.0
ANSWER_MAX_BYTES = 67_108_864
VARINT_MAX_BITS = 35


class LogDirsError(Exception):
    """The broker did not answer, or not in this version of the request."""


@dataclass(frozen=True, slots=True)
class PartitionUsage:
    """What a partition takes. None: the broker does not tell."""

    size_bytes: int
    objects: int | None
    last_write_ms: int | None


Usage = dict[tuple[str, int], PartitionUsage]


def ask(address: tuple[str, int], partitions: Mapping[str, Sequence[int]]) -> Usage:
    """The usage of the topics' partitions, as far as the broker knows them."""
    try:
        with socket.create_connection(address, timeout=TIMEOUT_SECONDS) as connection:
            connection.sendall(encode_request(partitions))
            length = int.from_bytes(_receive(connection, 4), "big")
            if length > ANSWER_MAX_BYTES:
                raise LogDirsError(f"answer of {length} bytes")
            return decode_answer(_receive(connection, length))
    except OSError as error:
        raise LogDirsError(str(error)) from error


def _receive(connection: socket.socket, length: int) -> bytes:
    received = bytearray()
    while len(received) < length:
        chunk = connection.recv(min(length - len(received), 1_048_576))
        if not chunk:
            raise LogDirsError("the broker closed the connection")
        received += chunk
    return bytes(received)


def _uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _compact_string(text: str) -> bytes:
    raw = text.encode()
    return _uvarint(len(raw) + 1) + raw


def encode_request(partitions: Mapping[str, Sequence[int]]) -> bytes:
    """The whole frame: length, request header v2 and body."""
    header = struct.pack(">hhih", API_KEY, API_VERSION, CORRELATION_ID, len(CLIENT_ID))
    body = bytearray(header + CLIENT_ID + b"\x00")
    body += _uvarint(len(partitions) + 1)
    for topic, numbers in partitions.items():
        body += _compact_string(topic) + _uvarint(len(numbers) + 1)
        body += struct.pack(f">{len(numbers)}i", *numbers) + b"\x00"
    body += b"\x00"
    return struct.pack(">i", len(body)) + bytes(body)


class _Reader:
    """Reads fields of an answer in order; LogDirsError past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> bytes:
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise LogDirsError("the answer is cut short")
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def integer(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big", signed=True)

    def uvarint(self) -> int:
        value = shift = 0
        while shift < VARINT_MAX_BITS:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise LogDirsError("a number in the answer is too long")

    def string(self) -> str:
        return self.take(self.uvarint() - 1).decode("utf-8", "replace")

    def tags(self) -> dict[int, bytes]:
        return {self.uvarint(): self.take(self.uvarint()) for _ in range(self.uvarint())}

    def count(self) -> int:
        return max(self.uvarint() - 1, 0)


def decode_answer(answer: bytes) -> Usage:
    """The usage in an answer (response header v1 and body)."""
    reader = _Reader(answer)
    if reader.integer(4) != CORRELATION_ID:
        raise LogDirsError("the answer belongs to another request")
    reader.tags()
    reader.integer(4)  # throttle time
    error_code = reader.integer(2)
    if error_code:
        raise LogDirsError(f"error code {error_code}")
    usage: Usage = {}
    for _ in range(reader.count()):
        _read_log_dir(reader, usage)
    return usage


def _read_log_dir(reader: _Reader, usage: Usage) -> None:
    reader.integer(2)  # error of this directory: it then lists no topics
    reader.string()
    for _ in range(reader.count()):
        topic = reader.string()
        for _ in range(reader.count()):
            _read_partition(reader, topic, usage)
        reader.tags()
    reader.take(16)  # total and usable bytes of the volume
    reader.tags()


def _read_partition(reader: _Reader, topic: str, usage: Usage) -> None:
    partition = reader.integer(4)
    size_bytes = reader.integer(8)
    reader.integer(8)  # offset lag
    is_future = reader.integer(1) != 0
    tags = reader.tags()
    if not is_future:
        usage[(topic, partition)] = PartitionUsage(
            size_bytes, _int64(tags.get(OBJECTS_TAG)), _int64(tags.get(LAST_WRITE_TAG))
        )


def _int64(raw: bytes | None) -> int | None:
    return int.from_bytes(raw, "big", signed=True) if raw is not None and len(raw) == 8 else None
