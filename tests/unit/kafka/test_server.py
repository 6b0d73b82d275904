"""The server on real sockets: answers, idle and stalled connections, stopping."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from structlog.testing import capture_logs
from tests.unit.kafka.helpers_connection import Handlers, frame, gated, instant, services

from towpath.kafka.codec.messages.fetch import FetchRequest
from towpath.kafka.codec.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from towpath.kafka.server import FRAME_STALL_MAX_MS, KafkaServer
from towpath.kafka.services import Services

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def on_both_loops(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test on asyncio's loop and on uvloop."""

    @pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
    def run(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(asyncio.wait_for(test(), 30))

    run.__doc__ = test.__doc__
    return run


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for something that another end of a socket brings about."""
    while not condition():  # noqa: ASYNC110 - there is no event to wait for.
        await asyncio.sleep(0.001)


class Broker:
    """A server with the test's handlers."""

    def __init__(self, below: Services, frame_stall_max_ms: int = FRAME_STALL_MAX_MS) -> None:
        self.handlers = Handlers()
        self.services = below
        self.server = KafkaServer(below, self.handlers.apis(), frame_stall_max_ms)

    async def connect(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self.server.port)

    async def until_started(self, count: int) -> None:
        await eventually(lambda: len(self.handlers.started) >= count)


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    body = await reader.readexactly(size)
    return int.from_bytes(body[:4]), body[4:]


@asynccontextmanager
async def running(**settings: int) -> AsyncIterator[Broker]:
    """A broker that is stopped at the end, with all its connections."""
    broker = Broker(services(**settings))
    await broker.server.start("127.0.0.1", 0)
    try:
        yield broker
    finally:
        await broker.server.stop(drain_ms=100)
    assert broker.server.connection_count == 0


@on_both_loops
async def test_pipelined_requests_are_answered_in_order() -> None:
    async with running() as broker:
        reader, writer = await broker.connect()
        writer.write(b"".join(instant(n) for n in range(1000)))
        assert [(await read_answer(reader))[0] for n in range(1000)] == list(range(1000))
        writer.close()


@on_both_loops
async def test_one_byte_at_a_time() -> None:
    async with running() as broker:
        reader, writer = await broker.connect()
        for byte in instant(7):
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert (await read_answer(reader))[0] == 7
        writer.close()


@on_both_loops
async def test_large_requests_arrive_whole() -> None:
    async with running() as broker:
        reader, writer = await broker.connect()
        records = bytes(range(256)) * 12_000
        data = [TopicProduceData(partition_data=[PartitionProduceData(records=records)])]
        for number in range(3):
            writer.write(frame(ProduceRequest(acks=1, topic_data=data), 9, number))
        for number in range(3):
            assert (await read_answer(reader))[0] == number
        for request in broker.handlers.seen:
            assert bytes(request.topic_data[0].partition_data[0].records) == records
        writer.close()


@on_both_loops
async def test_a_malformed_frame_closes_only_its_connection() -> None:
    async with running() as broker:
        (bad_reader, bad), (reader, writer) = await broker.connect(), await broker.connect()
        bad.write(struct.pack(">i", -5))
        with capture_logs():
            assert await bad_reader.read() == b""
        writer.write(instant(1))
        assert (await read_answer(reader))[0] == 1
        bad.close()
        writer.close()


@on_both_loops
async def test_connections_are_counted_and_have_no_delay() -> None:
    async with running() as broker:
        value = broker.services.metrics.registry.get_sample_value
        _reader, writer = await broker.connect()
        await eventually(lambda: broker.server.connection_count == 1)
        assert value("towpath_connections") == 1
        transport = next(iter(broker.server._protocols))._transport
        assert transport is not None
        sock = transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        writer.close()
        await eventually(lambda: broker.server.connection_count == 0)
        assert value("towpath_connections") == 0
        assert value("towpath_inflight_request_bytes") == 0


@on_both_loops
async def test_stopping_lets_running_requests_finish() -> None:
    broker = Broker(services())
    await broker.server.start("127.0.0.1", 0)
    reader, writer = await broker.connect()
    idle_reader, idle = await broker.connect()
    writer.write(gated(1))
    await broker.until_started(1)
    stopping = asyncio.create_task(broker.server.stop(drain_ms=30_000))
    assert await idle_reader.read() == b""
    broker.handlers.gates[1].set_result(None)
    assert (await read_answer(reader))[0] == 1
    assert await reader.read() == b""
    await stopping
    writer.close()
    idle.close()


@on_both_loops
async def test_stopping_cancels_what_does_not_finish_in_time() -> None:
    broker = Broker(services())
    await broker.server.start("127.0.0.1", 0)
    reader, writer = await broker.connect()
    poll_reader, poll = await broker.connect()
    writer.write(gated(1))
    poll.write(frame(FetchRequest(), 4, 2))
    await broker.until_started(2)
    with capture_logs() as lines:
        await broker.server.stop(drain_ms=10)
    assert broker.handlers.cancelled == [2]
    assert broker.handlers.gates[1].cancelled()
    assert "requests were still in work when stopping" in [line["event"] for line in lines]
    assert await reader.read() == b""
    assert await poll_reader.read() == b""
    writer.close()
    poll.close()


@on_both_loops
async def test_a_request_whose_client_is_gone_is_still_waited_for() -> None:
    broker = Broker(services())
    await broker.server.start("127.0.0.1", 0)
    _reader, writer = await broker.connect()
    writer.write(gated(1))
    await broker.until_started(1)
    writer.close()
    await eventually(lambda: broker.server.connection_count == 0)
    stopping = asyncio.create_task(broker.server.stop(drain_ms=30_000))
    await asyncio.sleep(0)
    broker.handlers.gates[1].set_result(None)
    await stopping
    assert not broker.handlers.gates[1].cancelled()


@on_both_loops
async def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    broker = Broker(services(connections_max_idle_ms=40))
    await broker.server.start("127.0.0.1", 0)
    idle_reader, idle = await broker.connect()
    busy_reader, busy = await broker.connect()
    busy.write(gated(1))
    await broker.until_started(1)
    assert await idle_reader.read() == b""
    assert not busy_reader.at_eof()
    broker.handlers.gates[1].set_result(None)
    assert (await read_answer(busy_reader))[0] == 1
    await broker.server.stop(drain_ms=100)
    idle.close()
    busy.close()


@on_both_loops
async def test_a_connection_that_stalls_in_a_frame_is_closed() -> None:
    broker = Broker(services(), frame_stall_max_ms=40)
    await broker.server.start("127.0.0.1", 0)
    reader, writer = await broker.connect()
    writer.write(instant(1)[:10])
    assert await reader.read() == b""
    await broker.server.stop(drain_ms=100)
    writer.close()


@on_both_loops
async def test_a_second_address_shares_the_connections_limits() -> None:
    broker = Broker(services())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    await broker.server.start("127.0.0.1", 0)
    await broker.server.start("127.0.0.1", port, reuse_port=True)
    assert broker.server.port != port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(instant(3))
    assert (await read_answer(reader))[0] == 3
    writer.close()
    await broker.server.stop(drain_ms=100)
