"""Kafka requests built with `struct`, for what a client library would not do.

Written against the protocol's documentation and not against the broker's own codec, so that both
are checked by each other. One request at a time per connection; old, fixed-size versions only.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from types import TracebackType

from tests.integration.harness.waiting import wait_until

PRODUCE, FETCH, LIST_OFFSETS, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 2, 18, 22
COORDINATOR_LOAD_IN_PROGRESS = 14
CLIENT_ID = "towpath-test"


class Reader:
    """Reads big-endian values off an answer."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: str) -> tuple[int, ...]:
        """The values of a struct layout (without its byte order)."""
        values = struct.unpack_from(">" + layout, self._data, self._at)
        self._at += struct.calcsize(">" + layout)
        return values

    def one(self, layout: str) -> int:
        """One value."""
        return self.take(layout)[0]

    def string(self) -> str | None:
        """A nullable string."""
        size = self.one("h")
        return None if size < 0 else self._bytes(size).decode()

    def data(self) -> bytes | None:
        """Nullable bytes."""
        size = self.one("i")
        return None if size < 0 else self._bytes(size)

    def _bytes(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken


@dataclass(frozen=True)
class Produced:
    """The answer for one partition."""

    error: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int


@dataclass(frozen=True)
class Fetched:
    """The answer for one partition; `records` are raw batches."""

    error: int
    high_watermark: int
    records: bytes


class Connection:
    """One TCP connection to one broker, whoever the leader may be."""

    def __init__(self, host: str, port: int, timeout_s: float = 20.0) -> None:
        self._socket = socket.create_connection((host, port), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def send_bytes(self, data: bytes) -> None:
        """Send bytes that need not be a request."""
        self._socket.sendall(data)

    def call(self, api_key: int, api_version: int, body: bytes) -> Reader:
        """Send one request and read its answer, after the correlation id."""
        self.send(api_key, api_version, body)
        return self.receive()

    def send(self, api_key: int, api_version: int, body: bytes) -> None:
        """Send one request without waiting."""
        self._correlation_id += 1
        header = struct.pack(">hhi", api_key, api_version, self._correlation_id)
        frame = header + _string(CLIENT_ID) + body
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self) -> Reader:
        """Read the answer to the last request sent."""
        (size,) = struct.unpack(">i", self._exactly(4))
        reader = Reader(self._exactly(size))
        got = reader.one("i")
        assert got == self._correlation_id, f"answer {got} to request {self._correlation_id}"
        return reader

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise ConnectionError("the broker closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def api_versions(self) -> dict[int, tuple[int, int]]:
        """ApiVersions v0: key to lowest and highest version."""
        reader = self.call(API_VERSIONS, 0, b"")
        assert reader.one("h") == 0
        rows = [reader.take("hhh") for _ in range(reader.one("i"))]
        return {key: (low, high) for key, low, high in rows}

    def produce(self, topic: str, partition: int, batch: bytes, acks: int = -1) -> Produced:
        """Produce v7 of one batch to one partition; acks must not be 0."""
        body = (
            struct.pack(">hhi", -1, acks, 30_000)
            + struct.pack(">i", 1)
            + _string(topic)
            + struct.pack(">iii", 1, partition, len(batch))
            + batch
        )
        reader = self.call(PRODUCE, 7, body)
        assert reader.one("i") == 1
        assert reader.string() == topic
        assert reader.take("ii") == (1, partition)
        return Produced(*reader.take("hqqq"))

    def fetch(
        self, topic: str, partition: int, offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1
    ) -> Fetched:
        """Fetch v4 from one partition, up to 1 MiB."""
        self.send_fetch(topic, partition, offset, max_wait_ms=max_wait_ms, min_bytes=min_bytes)
        return self.receive_fetch(topic, partition)

    def send_fetch(
        self, topic: str, partition: int, offset: int, *, max_wait_ms: int, min_bytes: int = 1
    ) -> None:
        """Send a Fetch v4 and do not wait for its answer."""
        body = (
            struct.pack(">iiiibi", -1, max_wait_ms, min_bytes, 1 << 20, 0, 1)
            + _string(topic)
            + struct.pack(">iiqi", 1, partition, offset, 1 << 20)
        )
        self.send(FETCH, 4, body)

    def receive_fetch(self, topic: str, partition: int) -> Fetched:
        """The answer to `send_fetch`."""
        reader = self.receive()
        reader.one("i")
        assert reader.one("i") == 1
        assert reader.string() == topic
        assert reader.take("ii") == (1, partition)
        error, high_watermark, _, aborted = reader.take("hqqi")
        for _ in range(max(aborted, 0)):
            reader.take("qq")
        return Fetched(error, high_watermark, reader.data() or b"")

    def init_producer_id(self) -> tuple[int, int]:
        """InitProducerId v1 without a transaction: producer id and epoch. A broker that is still
        getting its first block of ids is asked again, as clients do."""

        def ask() -> tuple[int, int, int] | None:
            reader = self.call(INIT_PRODUCER_ID, 1, struct.pack(">hi", -1, 60_000))
            reader.one("i")
            error, producer_id, epoch = reader.take("hqh")
            return None if error == COORDINATOR_LOAD_IN_PROGRESS else (error, producer_id, epoch)

        answer = wait_until(ask, "a producer id")
        assert answer is not None
        error, producer_id, epoch = answer
        assert error == 0, error
        return producer_id, epoch

    def list_offset(self, topic: str, partition: int, timestamp: int) -> tuple[int, int, int]:
        """ListOffsets v1: error, timestamp and offset."""
        body = (
            struct.pack(">ii", -1, 1)
            + _string(topic)
            + struct.pack(">iiq", 1, partition, timestamp)
        )
        reader = self.call(LIST_OFFSETS, 1, body)
        assert reader.one("i") == 1
        assert reader.string() == topic
        assert reader.take("ii") == (1, partition)
        error, found_timestamp, offset = reader.take("hqq")
        return error, found_timestamp, offset


def answers_api_versions(host: str, port: int) -> bool:
    """Whether a Kafka broker is ready to talk at this address."""
    try:
        with Connection(host, port, timeout_s=2.0) as connection:
            return PRODUCE in connection.api_versions()
    except (OSError, struct.error, AssertionError):
        return False


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
