"""Requests and answers as bytes: what every simulated client does in the same way."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import Any

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.cluster import Broker, Cluster
from tests.faults.simulation.loop import Node
from tests.faults.simulation.network import SimConnection

import towpath.kafka.apis.all  # noqa: F401  (registers every API)
from towpath.kafka.apis.registry import APIS
from towpath.kafka.codec import decode, encode
from towpath.kafka.codec.schema import ApiMessage
from towpath.kafka.routes import response_header_is_flexible

RECONNECT_S = 0.1

Broken = (ConnectionError, TimeoutError)
"""What a client sees when an answer does not come."""


class Wire:
    """One client's connection to one broker at a time, chosen anew each time it breaks."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        chance: Chance,
        timeout_s: float,
        broker: Broker | None = None,
    ) -> None:
        self.name = name
        self._broker = broker
        """The only broker to talk to, if there is one."""
        self._cluster = cluster
        self._chance = chance
        self._timeout_s = timeout_s
        self._connection: SimConnection | None = None
        self._correlation_id = 0
        self._awaited: deque[tuple[int, type[ApiMessage], int]] = deque()

    async def connect(self, broker: Broker | None = None) -> None:
        """Be connected: to this broker, or to one of those that listen."""
        while self._connection is None:
            listening = [one for one in self._cluster.alive() if one.accepting]
            chosen = (
                broker or self._broker or (self._chance.pick(*listening) if listening else None)
            )
            try:
                if chosen is not None:
                    self._connection = self._cluster.connect(self.name, chosen)
                    return
            except ConnectionRefusedError:
                pass
            await asyncio.sleep(RECONNECT_S)

    @property
    def connected(self) -> bool:
        """Whether there is a connection, as far as the client knows."""
        return self._connection is not None

    @property
    def node(self) -> Node | None:
        """The broker's life that it is connected to, as far as the client knows."""
        return None if self._connection is None else self._connection.node

    def abandon(self) -> None:
        """Be gone without a word: the broker is told nothing."""
        self._connection = None
        self._awaited.clear()

    def close(self) -> None:
        """Hang up and forget what was asked."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._awaited.clear()

    async def ask(self, request: ApiMessage, version: int, *, wait_s: float = 0.0) -> Any:
        """Send one request and wait for its answer, `wait_s` longer than usual."""
        await self.connect()
        self.send(request, version)
        return await self.answer(wait_s=wait_s)

    def send(self, request: ApiMessage, version: int) -> None:
        """Send one request on the open connection."""
        assert self._connection is not None
        self._correlation_id += 1
        client_id = self.name.encode()
        frame = struct.pack(">hhih", request.API_KEY, version, self._correlation_id, len(client_id))
        frame += client_id
        if version >= request.FLEXIBLE_SINCE:
            frame += b"\0"
        frame += encode(request, version)
        response_type = APIS[request.API_KEY].response_type
        self._awaited.append((self._correlation_id, response_type, version))
        self._connection.send(struct.pack(">i", len(frame)) + frame)

    async def answer(self, *, wait_s: float = 0.0) -> Any:
        """The answer to the oldest request that has none; one of `Broken` if it does not come."""
        assert self._connection is not None
        try:
            async with asyncio.timeout(self._timeout_s + wait_s):
                frame = await self._connection.receive()
        except Broken:
            self.close()
            raise
        correlation_id, response_type, version = self._awaited.popleft()
        got = int.from_bytes(frame[:4], "big")
        assert got == correlation_id, f"answer {got} to request {correlation_id}"
        at = 5 if response_header_is_flexible(response_type, version) else 4
        return decode(response_type, version, memoryview(frame)[at:])
