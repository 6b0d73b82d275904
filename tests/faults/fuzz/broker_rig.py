"""A whole broker on stores in memory, to whose connections a fuzzer writes bytes.

Everything between the transport and the stores is the real thing. What must hold after each
connection: every handler has ended, no request's bytes are counted any more, and nothing failed in
a way that the code did not expect.
"""

from __future__ import annotations

import asyncio
import gc
import struct
from typing import Any, cast

import structlog
from tests.faults.fuzz.seeds import CORRELATION_ID, TOPIC, Seed

from towpath.core import BrokerCore, CoreSettings
from towpath.gc.settings import GcSettings
from towpath.kafka.codec import decode
from towpath.kafka.routes import response_header_is_flexible
from towpath.kafka.server import KafkaProtocol
from towpath.kafka.services import KafkaSettings
from towpath.log.object.settings import ObjectLogSettings
from towpath.metadata.keys.cluster import BrokerRecord
from towpath.metadata.memory import MemoryStore
from towpath.objects.memory import MemoryObjectStore
from towpath.objects.store import Buffer
from towpath.observe.metrics import Metrics
from towpath.runtime import inline_runtime
from towpath.topics.effective import TopicDefaults
from towpath.topics.interface import NewTopic

TURNS = 20
"""Turns of the loop that a request gets before its client leaves."""
HANG_S = 10.0
"""A handler that runs longer after its client has left hangs."""
EXAMPLES_PER_LIFE = 200
"""A broker is replaced after so many connections, for what they create stays."""


class FuzzTransport:
    """A transport that keeps what is sent to the client."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.closed = False
        self.paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered here."""

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def write(self, data: Buffer) -> None:
        self.sent += data

    def writelines(self, parts: list[Buffer]) -> None:
        for part in parts:
            self.sent += part

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class FuzzBroker:
    """One life of a broker; replaced by itself after many connections."""

    def __init__(self) -> None:
        self._core: BrokerCore | None = None
        self._connections = 0

    async def close(self) -> None:
        """Stop the broker."""
        core, self._core = self._core, None
        if core is not None:
            await core.stop()

    async def send(self, data: bytes, pieces: int = 1) -> bytes:
        """Write bytes to a new connection, let it work, and leave; what came back."""
        core = await self._fresh_core()
        with structlog.testing.capture_logs() as lines:
            sent = await self._talk(core, data, pieces)
        unexpected = [line for line in lines if line["log_level"] in ("error", "critical")]
        assert not unexpected, unexpected
        return sent

    async def _fresh_core(self) -> BrokerCore:
        if self._connections % EXAMPLES_PER_LIFE == 0:
            await self.close()
            gc.collect()  # The last broker's recycled buffers are large.
            self._core = await start_core()
        self._connections += 1
        assert self._core is not None
        return self._core

    async def _talk(self, core: BrokerCore, data: bytes, pieces: int) -> bytes:
        protocol, transport = core.server.accept(), FuzzTransport()
        protocol.connection_made(cast(asyncio.BaseTransport, transport))
        for part in _split(data, pieces):
            await _feed(protocol, transport, part)
        for _ in range(TURNS):
            if transport.closed:
                break
            await asyncio.sleep(0)
        protocol.connection_lost(None)
        shared = core.server._shared
        assert shared is not None
        async with asyncio.timeout(HANG_S):
            while shared.tasks:
                await asyncio.wait(shared.tasks)
        assert shared.inflight.bytes == 0
        connection = protocol.connection
        assert not connection._running
        assert not connection._waiting
        assert all(call.done for call in connection._answers)
        return bytes(transport.sent)


async def _feed(protocol: KafkaProtocol, transport: FuzzTransport, data: bytes) -> None:
    """Hand over bytes as a socket would, waiting while reading is paused."""
    left = memoryview(data)
    async with asyncio.timeout(HANG_S):
        while left and not transport.closed:
            if transport.paused:
                await asyncio.sleep(0)
                continue
            buffer = protocol.get_buffer(-1)
            count = min(len(buffer), len(left))
            buffer[:count] = left[:count]
            del buffer
            left = left[count:]
            protocol.buffer_updated(count)


def _split(data: bytes, pieces: int) -> list[bytes]:
    size = max(1, -(-len(data) // max(1, pieces)))
    return [data[at : at + size] for at in range(0, len(data), size)]


async def start_core(kafka: KafkaSettings | None = None) -> BrokerCore:
    """A broker with one topic."""
    runtime = inline_runtime(1)
    store, objects, metrics = MemoryStore(runtime), MemoryObjectStore(runtime), Metrics()
    settings = CoreSettings(
        topics=TopicDefaults(),
        log=ObjectLogSettings(broker_id=1, flush_max_objects_per_second=100_000),
        gc=GcSettings(),
        kafka=kafka or KafkaSettings(decompressed_max_bytes=1 << 20),
        session_ttl_ms=60_000,
        drain_ms=1000,
        broker_configs={"broker.id": "1"},
    )
    core = BrokerCore(store, objects, runtime, metrics, settings, lambda step: None)
    await core.start("fuzz", BrokerRecord(1, "127.0.0.1", 9092, 0, "fuzz"))
    await core.server._services.topics.create(NewTopic(name=TOPIC, partitions=2))
    return core


def check_answer(seed: Seed, sent: bytes) -> None:
    """An answer to a request whose header is intact can be read by the client that sent it."""
    while sent:
        size, correlation_id = struct.unpack_from(">ii", sent)
        assert len(sent) >= size + 4
        if correlation_id == CORRELATION_ID:
            response = seed.api.response_type
            at = 9 if response_header_is_flexible(response, seed.version) else 8
            decode(response, seed.version, sent[at : size + 4])
        sent = sent[size + 4 :]
