"""Asks the other brokers over HTTP, so that the first HTTP port can answer for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

PEER_TIMEOUT_MS = 3_000
"""A peer that does not answer within this counts as down. Longer than a readiness probe takes."""

ANSWER_MAX_BYTES = 8_388_608
"""The largest answer accepted from a peer."""


class PeerError(Exception):
    """A peer could not be asked, or its answer was not HTTP."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another broker and where its HTTP port answers, for example `http://127.0.0.1:9465`."""

    broker_id: int
    http_url: str


ListPeers = Callable[[], Sequence[Peer]]
"""The other brokers at this moment; must not block."""


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """What a peer answered."""

    status: int
    body: bytes


async def ask(peer: Peer, path: str, *, timeout_ms: int = PEER_TIMEOUT_MS) -> PeerAnswer:
    """GET `path` from the peer; raises PeerError if there is no whole answer in time."""
    url = urlsplit(peer.http_url)
    if url.scheme != "http" or url.hostname is None:
        raise PeerError(f"broker {peer.broker_id} has no usable HTTP address: {peer.http_url}")
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await _get(url.hostname, url.port or 80, path)
    except TimeoutError as error:
        raise PeerError(f"broker {peer.broker_id}: no answer within {timeout_ms} ms") from error
    except (OSError, ValueError) as error:
        raise PeerError(f"broker {peer.broker_id}: {error}") from error


async def _get(host: str, port: int, path: str) -> PeerAnswer:
    """One HTTP/1.0 exchange: the answer ends where the connection ends."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode("ascii"))
        await writer.drain()
        return _parse(await _read_all(reader))
    finally:
        writer.close()


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    received = bytearray()
    while chunk := await reader.read(65_536):
        received += chunk
        if len(received) > ANSWER_MAX_BYTES:
            raise ValueError(f"answer is larger than {ANSWER_MAX_BYTES} bytes")
    return bytes(received)


def _parse(answer: bytes) -> PeerAnswer:
    head, separator, body = answer.partition(b"\r\n\r\n")
    status_line = head.split(b"\r\n", 1)[0].split(b" ", 2)
    if not separator or len(status_line) < 2 or not status_line[1].isdigit():
        raise ValueError("the answer is not HTTP")
    return PeerAnswer(int(status_line[1]), body)
