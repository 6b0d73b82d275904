"""The HTTP port: a real server, asked over a socket."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry, Counter

from towpath.observe.health import Health
from towpath.observe.http import HttpServer
from towpath.observe.peers import ListPeers, Peer, PeerAnswer, PeerError, ask
from towpath.runtime import SystemClock


async def works() -> None:
    """A part that is fine."""


async def fails() -> None:
    raise OSError("disk is gone")


@asynccontextmanager
async def serving(
    broker_id: int = 1, *, healthy: bool = True, peers: ListPeers | None = None
) -> AsyncIterator[HttpServer]:
    registry = CollectorRegistry()
    Counter("towpath_requests", "Requests", ("api",), registry=registry).labels("Fetch").inc(
        broker_id
    )
    health = Health({"metadata": works, "objects": works if healthy else fails}, SystemClock())
    server = HttpServer(
        "127.0.0.1", 0, broker_id=broker_id, registry=registry, health=health, peers=peers
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def get(server: HttpServer, path: str) -> PeerAnswer:
    return await ask(Peer(0, server.url), path, timeout_ms=20_000)


async def test_metrics_health_and_index() -> None:
    async with serving() as server:
        metrics = await get(server, "/metrics")
        assert metrics.status == 200
        assert b'towpath_requests_total{api="Fetch"} 1.0' in metrics.body
        assert json.loads((await get(server, "/healthz")).body) == {"status": "ok"}
        ready = await get(server, "/readyz")
        assert ready.status == 200
        assert json.loads(ready.body)["failing"] == []
        assert "/metrics" in json.loads((await get(server, "/")).body)["paths"]
        assert (await get(server, "/nothing")).status == 404


async def test_readiness_says_which_part_fails() -> None:
    async with serving(healthy=False) as server:
        ready = await get(server, "/readyz")
        assert ready.status == 503
        body = json.loads(ready.body)
        assert body["failing"] == ["objects"]
        assert body["brokers"]["1"]["objects"]["error"] == "disk is gone"
        assert body["brokers"]["1"]["metadata"]["ok"] is True
        assert (await get(server, "/healthz")).status == 200


async def test_the_first_port_answers_for_all() -> None:
    async with serving(2) as second, serving(3, healthy=False) as third:
        peers = [Peer(1, "http://127.0.0.1:1"), Peer(2, second.url), Peer(3, third.url)]
        async with serving(1, peers=lambda: peers) as first:
            text = (await get(first, "/metrics")).body.decode()
            assert text.count("# TYPE towpath_requests_total counter") == 1
            for broker_id in (1, 2, 3):
                sample = f'towpath_requests_total{{broker="{broker_id}",api="Fetch"}}'
                assert f"{sample} {broker_id}.0\n" in text
                assert f'towpath_broker_up{{broker="{broker_id}"}} 1.0' in text
            ready = await get(first, "/readyz")
            assert ready.status == 503
            body = json.loads(ready.body)
            assert body["failing"] == ["broker 3"]
            assert body["brokers"]["3"]["objects"]["error"] == "disk is gone"
            local = json.loads((await get(first, "/readyz?local=1")).body)
            assert local["ready"] is True
            assert list(local["brokers"]) == ["1"]


async def test_a_dead_peer_is_shown_as_down() -> None:
    async with serving(2) as second:
        gone = Peer(2, second.url)
    async with serving(1, peers=lambda: [gone]) as first:
        assert b'towpath_broker_up{broker="2"} 0.0' in (await get(first, "/metrics")).body
        ready = await get(first, "/readyz")
        assert ready.status == 503
        assert json.loads(ready.body)["failing"] == ["broker 2"]


async def test_a_taken_port_is_noticed_at_start() -> None:
    async with serving() as server:
        port = server.address[1]
        health = Health({}, SystemClock())
        other = HttpServer(
            "127.0.0.1", port, broker_id=2, registry=CollectorRegistry(), health=health
        )
        with pytest.raises(OSError, match="in use"):
            await other.start()


async def test_stop_at_once_releases_the_port_and_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with serving() as server:
        address = server.address
        await get(server, "/healthz")
        assert signal.getsignal(signal.SIGTERM) is before
    async with serving():
        pass  # stopped while it is still loading
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "nonsense", "http://"])
async def test_unusable_addresses_of_peers(url: str) -> None:
    with pytest.raises(PeerError):
        await ask(Peer(1, url), "/")


async def test_an_answer_that_is_not_http() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x00\x00garbage")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(PeerError, match="not HTTP"):
            await ask(Peer(1, f"http://127.0.0.1:{port}"), "/")
