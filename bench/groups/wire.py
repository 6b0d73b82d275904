"""A connection of the load generator: any request of the codec, one at a time, and then the same
request over and over with as little work as possible."""

from __future__ import annotations

import asyncio
import importlib
import struct
import time
from collections.abc import Callable
from typing import Any, cast

from towpath.kafka.codec import decode, encode
from towpath.kafka.codec.schema import ApiMessage

CLIENT_ID = b"bench"
CORRELATION_ID = 7
"""The same for every request: there is one at a time."""
SIZE_BYTES = 4
ANSWER_TIMEOUT_S = 60.0
NOT_READY = frozenset({14, 15, 16})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
RETRY_S = 0.02


class WrongAnswer(Exception):
    """The broker answered something else than it should, or nothing."""


def frame_of(request: ApiMessage, version: int) -> bytes:
    """The request as it goes over the wire."""
    header = struct.pack(">hhih", request.API_KEY, version, CORRELATION_ID, len(CLIENT_ID))
    tags = b"\0" if version >= request.FLEXIBLE_SINCE else b""
    body = header + CLIENT_ID + tags + encode(request, version)
    return struct.pack(">i", len(body)) + body


def answer_of(request: ApiMessage, version: int, frame: bytes) -> Any:
    """The answer in a frame."""
    kind = type(request)
    module = importlib.import_module(kind.__module__)
    response = getattr(module, kind.__name__.removesuffix("Request") + "Response")
    at = SIZE_BYTES + 4 + (version >= request.FLEXIBLE_SINCE)
    return decode(response, version, frame[at:])


class Connection(asyncio.Protocol):
    """One TCP connection with at most one request on its way."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._answer: asyncio.Future[bytes] | None = None
        self._on_frame: Callable[[bytes], None] = self._resolve

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        if len(data) < SIZE_BYTES or len(data) < SIZE_BYTES + int.from_bytes(data[:SIZE_BYTES]):
            self._buffer = data
            return
        self._buffer = b""
        self._on_frame(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(WrongAnswer("the broker closed the connection"))

    # The generator's side

    async def ask(self, request: ApiMessage, version: int) -> Any:
        """The answer to a request, however long it waits."""
        return answer_of(request, version, await self.ask_frame(frame_of(request, version)))

    async def ask_ready(
        self, request: ApiMessage, version: int, error: Callable[[Any], int]
    ) -> Any:
        """The answer, asked again while the coordinator is not ready; WrongAnswer for any other
        error."""
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            answer = await self.ask(request, version)
            code = error(answer)
            if not code:
                return answer
            if code not in NOT_READY or time.monotonic() > deadline:
                raise WrongAnswer(f"{type(request).__name__}: error {code}")
            await asyncio.sleep(RETRY_S)

    async def ask_frame(self, frame: bytes) -> bytes:
        """The frame that answers a frame."""
        self._answer = asyncio.get_running_loop().create_future()
        self._on_frame = self._resolve
        self.write(frame)
        return await asyncio.wait_for(self._answer, ANSWER_TIMEOUT_S)

    def on_frame(self, callback: Callable[[bytes], None]) -> None:
        """From now on whole answers go there."""
        self._on_frame = callback

    def write(self, frame: bytes) -> None:
        """Send a request."""
        if self._transport is None:
            raise WrongAnswer("the broker closed the connection")
        self._transport.write(frame)

    def close(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.close()

    def _resolve(self, frame: bytes) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(frame)


async def connect(port: int) -> Connection:
    """A new connection to a broker of this machine."""
    _, connection = await asyncio.get_running_loop().create_connection(
        Connection, "127.0.0.1", port
    )
    return connection
