"""The asyncio shell around `Connection`: sockets, accepting, idle connections, stopping."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any, cast

import structlog

from towpath.kafka.apis.registry import Api
from towpath.kafka.arena import BufferPool, ReceiveArena
from towpath.kafka.connection import Connection, Shared
from towpath.kafka.flow_control import InflightBytes
from towpath.kafka.routes import Routes
from towpath.kafka.services import Services
from towpath.objects.store import Buffer

log = structlog.get_logger(__name__)

BACKLOG_CONNECTIONS = 1024
WRITE_HIGH_BYTES = 1_048_576
"""Unsent answers of one connection at which no further request of it is started."""
JOIN_BELOW_BYTES = 65_536
"""Answers below this size are joined into one buffer; a system call costs more than the copy."""
FRAME_STALL_MAX_MS = 60_000
"""A connection that stops in the middle of a frame is closed after this time."""
ABORT_MAX_MS = 5_000
"""How long stopping waits for cancelled handlers to end."""
SWEEPS_PER_LIMIT = 4
"""Idle connections are looked for this many times in the shortest limit."""


class KafkaProtocol(asyncio.BufferedProtocol):
    """Passes one transport's events to its connection, and the connection's wishes back."""

    __slots__ = ("_closing", "_server", "_transport", "connection")

    connection: Connection

    def __init__(self, server: KafkaServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._closing = False

    # Events of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        self.connection = self._server.opened(self, _peer(transport))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.connection.frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.connection.received(nbytes)

    def pause_writing(self) -> None:
        self.connection.pause_writing()

    def resume_writing(self) -> None:
        self.connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.connection.lost()
        self._server.closed(self)

    # Wishes of the connection

    def write(self, chunks: list[Buffer]) -> None:
        if self._transport is None or self._closing:
            return
        if len(chunks) == 1:
            self._transport.write(chunks[0])
        elif sum(map(len, chunks)) < JOIN_BELOW_BYTES:
            self._transport.write(b"".join(chunks))
        else:
            self._transport.writelines(chunks)

    def close(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close without sending what is left."""
        self._closing = True
        self.connection.abort()
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        if self._transport is not None and not self._closing:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._closing:
            self._transport.resume_reading()


class KafkaServer:
    """Serves the registered APIs on one or more addresses of one event loop."""

    def __init__(
        self,
        services: Services,
        apis: Mapping[int, Api],
        frame_stall_max_ms: int = FRAME_STALL_MAX_MS,
    ) -> None:
        self._services = services
        self._frame_stall_max_ms = frame_stall_max_ms
        self._apis = apis
        self._shared: Shared | None = None
        self._listeners: list[asyncio.Server] = []
        # A dictionary instead of a set: connections are closed in the order of their arrival.
        self._protocols: dict[KafkaProtocol, None] = {}
        self._next_id = 1
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._all_closed = asyncio.Event()
        self._all_closed.set()

    @property
    def port(self) -> int:
        """The port of the first address."""
        return int(self._listeners[0].sockets[0].getsockname()[1])

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._protocols)

    async def start(self, host: str, port: int, *, reuse_port: bool = False) -> None:
        """Listen on an address; may be called again for another one. Port 0 takes a free one."""
        listener = await asyncio.get_running_loop().create_server(
            self.accept, host, port, backlog=BACKLOG_CONNECTIONS, reuse_port=reuse_port
        )
        self._listeners.append(listener)

    async def start_on(self, bound: socket.socket) -> None:
        """Listen on a socket that is bound already."""
        listener = await asyncio.get_running_loop().create_server(
            self.accept, sock=bound, backlog=BACKLOG_CONNECTIONS
        )
        self._listeners.append(listener)

    def accept(self) -> KafkaProtocol:
        """The protocol of a new connection; the simulation connects its own transports to it."""
        return KafkaProtocol(self)

    async def stop(self, drain_ms: int) -> None:
        """Stop accepting, let requests in work finish for at most `drain_ms`, close everything."""
        for listener in self._listeners:
            listener.close()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for protocol in list(self._protocols):
            protocol.connection.drain()
        try:
            async with asyncio.timeout(drain_ms / 1000):
                await self._finished()
        except TimeoutError:
            log.warning("requests were still in work when stopping", open=len(self._protocols))
        for protocol in list(self._protocols):
            protocol.abort()
        for task in self._tasks():
            task.cancel()
        try:
            async with asyncio.timeout(ABORT_MAX_MS / 1000):
                await self._finished()
        except TimeoutError:
            log.error("handlers ignored being cancelled", tasks=len(self._tasks()))
        if self._shared is not None:
            self._shared.routes.flush_metrics()
        self._services.produce_meter.flush()

    async def _finished(self) -> None:
        """Wait for every connection to close and every handler to end."""
        await self._all_closed.wait()
        while tasks := self._tasks():
            await asyncio.wait(tasks)

    def _tasks(self) -> list[asyncio.Task[Any]]:
        return [] if self._shared is None else list(self._shared.tasks)

    # Connections

    def opened(self, protocol: KafkaProtocol, peer: str) -> Connection:
        """A transport is connected."""
        shared = self._shared or self._share()
        connection = Connection(shared, self._next_id, peer, protocol)
        self._next_id += 1
        self._protocols[protocol] = None
        self._all_closed.clear()
        self._services.metrics.connections.inc()
        log.debug("connection opened", connection_id=connection.id, peer=peer)
        return connection

    def closed(self, protocol: KafkaProtocol) -> None:
        """A transport is gone."""
        self._protocols.pop(protocol, None)
        self._services.metrics.connections.dec()
        if not self._protocols:
            self._all_closed.set()

    def _share(self) -> Shared:
        """Make what all connections share, on the loop that serves them."""
        pool = BufferPool()
        loop = asyncio.get_running_loop()
        self._shared = Shared(
            services=self._services,
            routes=Routes(self._apis, self._services.metrics),
            inflight=InflightBytes(self._services.settings.process_inflight_max_bytes),
            pool=pool,
            arena=ReceiveArena(pool),
            loop=loop,
        )
        inflight = self._shared.inflight
        self._services.metrics.inflight_bytes.set_function(lambda: inflight.bytes)
        self._schedule_sweep()
        return self._shared

    def _schedule_sweep(self) -> None:
        idle_ms = self._services.settings.connections_max_idle_ms
        shortest_ms = self._frame_stall_max_ms
        if idle_ms > 0:
            shortest_ms = min(idle_ms, shortest_ms)
        delay_s = shortest_ms / SWEEPS_PER_LIMIT / 1000
        self._sweep_timer = asyncio.get_running_loop().call_later(delay_s, self._sweep)

    def _sweep(self) -> None:
        """Close the connections that have been idle, or stuck in a frame, for too long."""
        now_s = asyncio.get_running_loop().time()
        idle_ms = self._services.settings.connections_max_idle_ms
        for protocol in list(self._protocols):
            connection = protocol.connection
            quiet_ms = (now_s - connection.last_active_s) * 1000
            stalled = connection.frames.mid_frame and not connection.frames.held
            if stalled and quiet_ms >= self._frame_stall_max_ms:
                log.info("stalled connection closed", connection_id=connection.id)
                protocol.close()
            elif 0 < idle_ms <= quiet_ms and connection.idle:
                log.info("idle connection closed", connection_id=connection.id)
                protocol.close()
        self._schedule_sweep()


def _peer(transport: asyncio.BaseTransport) -> str:
    name: Any = transport.get_extra_info("peername")
    if isinstance(name, tuple):
        return f"{name[0]}:{name[1]}"
    return str(name or "unknown")
