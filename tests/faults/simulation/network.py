"""Connections between clients and brokers: bytes in order, with latency, pieces, stalls and resets.

The broker's end is a transport for the protocol that `KafkaServer.accept` makes, and runs in the
broker's context: bytes for a paused broker wait, as they would in the kernel. The client's end is a
pair of `send` and `receive`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from itertools import pairwise
from typing import Any

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.loop import Node, SimLoop
from tests.faults.simulation.rates import NetworkRates, Rates

TRICKLE_BYTES = 64
"""How many bytes of a write may arrive one at a time."""
PIECES_MAX = 4
RESUME_PART = 4
"""Writing goes on when the buffer has fallen to this part of its limit."""


class Pipe:
    """One direction of a connection: what is written arrives later, in order, in pieces."""

    def __init__(
        self,
        loop: SimLoop,
        chance: Chance,
        rates: Callable[[], NetworkRates],
        context: Context,
        deliver: Callable[[bytes], None],
    ) -> None:
        self._loop = loop
        self._chance = chance
        self._rates = rates
        self._context = context
        self._deliver = deliver
        self._last_at_s = 0.0
        self.blocked_until_s = 0.0
        """A partition: nothing arrives before this time."""

    def write(self, data: bytes) -> bool:
        """Send bytes; False if the connection is to break after what was scheduled."""
        rates = self._rates()
        breaks = self._chance.happens(rates.reset)
        if breaks:
            data = data[: int(self._chance.random() * len(data))]
        if self._chance.happens(rates.stall):
            self._last_at_s = self._arrival_s(self._chance.random() * rates.stall_s)
        for piece in self._pieces(data, rates):
            self.call(self._deliver, piece)
        return not breaks

    def call(self, callback: Callable[..., None], *args: Any) -> None:
        """Call back at the other end, behind everything that was sent."""
        at = self._last_at_s = self._arrival_s(self._chance.random() * self._rates().delay_s)
        self._loop.call_at(at, callback, *args, context=self._context)

    def _arrival_s(self, delay_s: float) -> float:
        return max(self._last_at_s, self._loop.time() + delay_s, self.blocked_until_s)

    def _pieces(self, data: bytes, rates: NetworkRates) -> Iterable[bytes]:
        if self._chance.happens(rates.trickle):
            yield from (data[at : at + 1] for at in range(min(TRICKLE_BYTES, len(data))))
            data = data[TRICKLE_BYTES:]
        elif self._chance.happens(rates.split):
            cuts = [int(self._chance.random() * len(data)) for _ in range(PIECES_MAX - 1)]
            edges = [0, *sorted(cuts), len(data)]
            yield from (data[a:b] for a, b in pairwise(edges) if a < b)
            return
        if data:
            yield data


class BrokerEnd(asyncio.Transport):
    """The transport that a broker's protocol sees."""

    def __init__(self, connection: SimConnection, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__({"peername": (connection.client, 1)})
        self._connection = connection
        self._protocol = protocol
        self._inbox: deque[memoryview] = deque()
        self._reading = True
        self._closing = False
        self._lost = False
        self._high_bytes = connection.window_bytes
        self._unread_bytes = 0
        self._writing_paused = False

    # What the protocol asks

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is not None:
            self._high_bytes = min(high, self._high_bytes)

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._connection.node.dead:
            return
        self._unread_bytes += len(data)
        if self._unread_bytes > self._high_bytes and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()
        if not self._connection.to_client.write(bytes(data)):
            self._connection.reset()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self._closing and not self._connection.node.dead:
            self._closing = True
            self._connection.to_client.call(self._connection.client_lost)
            self._connection.loop.call_soon(self.lost)

    def abort(self) -> None:
        if not self._connection.node.dead:
            self._connection.reset()

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._connection.loop.call_soon(self._read)

    # What the network reports, in the broker's context

    def made(self) -> None:
        """The broker accepts the connection."""
        self._protocol.connection_made(self)

    def arrived(self, data: bytes) -> None:
        """Bytes of the client are here."""
        self._inbox.append(memoryview(data))
        self._read()

    def _read(self) -> None:
        while self._inbox and self._reading and not self._closing:
            data = self._inbox.popleft()
            buffer = memoryview(self._protocol.get_buffer(-1))
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            del buffer
            if count < len(data):
                self._inbox.appendleft(data[count:])
            self._protocol.buffer_updated(count)

    def taken(self, count: int) -> None:
        """The client has read so many bytes."""
        self._unread_bytes -= count
        if self._writing_paused and self._unread_bytes * RESUME_PART <= self._high_bytes:
            self._writing_paused = False
            if not self._lost:
                self._protocol.resume_writing()

    def lost(self) -> None:
        """The connection is gone."""
        self._closing = True
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(None)


class SimConnection:
    """One connection of a client to a broker."""

    def __init__(
        self,
        network: Network,
        client: str,
        node: Node,
        protocol: asyncio.BufferedProtocol,
        chance: Chance,
    ) -> None:
        self.loop = network.loop
        self.client = client
        self.node = node
        self._network = network
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._bytes = bytearray()
        self._broken = False
        world = Context()

        def rates() -> NetworkRates:
            return network.rates.network

        self.window_bytes = rates().window_bytes
        self._broker_end = BrokerEnd(self, protocol)
        self.to_client = Pipe(self.loop, chance.child("down"), rates, world, self._received)
        self.to_broker = Pipe(
            self.loop, chance.child("up"), rates, node.context, self._broker_end.arrived
        )
        self.block(network.blocked_until_s(client, node))
        self.to_broker.call(self._broker_end.made)

    # The client's end

    def send(self, data: bytes) -> None:
        """Send bytes; a broken connection swallows them."""
        if not self._broken and not self.to_broker.write(data):
            self.reset()

    async def receive(self) -> bytes:
        """The next answer, without its length; ConnectionResetError when there will be none."""
        frame = await self._frames.get()
        if frame is None:
            self._frames.put_nowait(None)
            raise ConnectionResetError("the connection is closed")
        return frame

    def close(self) -> None:
        """Hang up; what was sent still arrives."""
        if not self._broken:
            self.to_broker.call(self._broker_end.lost)
            self.client_lost()

    def _received(self, data: bytes) -> None:
        if self._broken:
            return
        self.loop.call_soon(self._broker_end.taken, len(data), context=self.node.context)
        self._bytes += data
        while len(self._bytes) >= 4:
            size = 4 + int.from_bytes(self._bytes[:4], "big")
            if len(self._bytes) < size:
                break
            self._frames.put_nowait(bytes(self._bytes[4:size]))
            del self._bytes[:size]

    # Both ends

    def client_lost(self) -> None:
        """The client learns that the connection is gone."""
        if not self._broken:
            self._broken = True
            self._frames.put_nowait(None)
            self._network.forget(self)

    def reset(self) -> None:
        """Break the connection; what has not arrived never will, except what is scheduled."""
        if not self._broken:
            self.to_broker.call(self._broker_end.lost)
            self.to_client.call(self.client_lost)

    def block(self, until_s: float) -> None:
        """Let nothing through before `until_s`."""
        for pipe in (self.to_broker, self.to_client):
            pipe.blocked_until_s = max(pipe.blocked_until_s, until_s)


class Network:
    """All connections, and which pairs cannot talk."""

    def __init__(self, loop: SimLoop, rates: Rates, chance: Chance) -> None:
        self.loop = loop
        self.rates = rates
        self._chance = chance
        self._count = 0
        self._connections: dict[SimConnection, None] = {}
        self._partitions: dict[tuple[str, str], float] = {}

    def connect(self, client: str, node: Node, protocol: asyncio.BufferedProtocol) -> SimConnection:
        """A connection that the broker's kernel has accepted."""
        self._count += 1
        chance = self._chance.child(f"connection-{self._count}")
        connection = SimConnection(self, client, node, protocol, chance)
        self._connections[connection] = None
        return connection

    def forget(self, connection: SimConnection) -> None:
        """A connection is gone."""
        self._connections.pop(connection, None)

    def blocked_until_s(self, client: str, node: Node) -> float:
        """When a client and a broker can talk again; 0 if they can."""
        return self._partitions.get((client, node.name), 0.0)

    def partition(self, client: str, node_name: str, until_s: float) -> None:
        """Let nothing through between the two before `until_s`."""
        self._partitions[client, node_name] = until_s
        for connection in self._connections:
            if (connection.client, connection.node.name) == (client, node_name):
                connection.block(until_s)

    def reset_all(self, node: Node) -> None:
        """Break every connection of a broker, at the clients' ends."""
        for connection in list(self._connections):
            if connection.node is node:
                connection.to_client.call(connection.client_lost)
