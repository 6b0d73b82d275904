"""The HTTP answers: `/metrics`, `/healthz`, `/readyz` and an index of them.

With a list of peers, `/metrics` and `/readyz` answer for all brokers; `?local=1` asks for this one
alone, which is what the first broker asks its peers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from towpath import __version__
from towpath.observe import exposition
from towpath.observe.health import Health
from towpath.observe.peers import ListPeers, Peer, PeerError, ask

T = TypeVar("T")

PEERS_ASKED_AT_ONCE = 16

Refresh = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Observed:
    """What the HTTP port tells about. `peers` lists the other brokers to answer for, if any;
    `refresh` measures what is measured only when somebody asks, in bounded time."""

    broker_id: int
    registry: CollectorRegistry
    health: Health
    peers: ListPeers | None = None
    refresh: Refresh | None = None


def build(observed: Observed) -> Starlette:
    """The ASGI application."""
    return Starlette(
        routes=[
            Route("/", _Index(observed).answer),
            Route("/metrics", _Metrics(observed).answer),
            Route("/healthz", _healthz),
            Route("/readyz", _Ready(observed).answer),
        ]
    )


async def _healthz(_: Request) -> Response:
    """The process lives: it got here."""
    return JSONResponse({"status": "ok"})


def _wanted_peers(observed: Observed, request: Request) -> list[Peer]:
    if observed.peers is None or request.query_params.get("local"):
        return []
    return [peer for peer in observed.peers() if peer.broker_id != observed.broker_id]


class _Index:
    def __init__(self, observed: Observed) -> None:
        self._observed = observed

    async def answer(self, _: Request) -> Response:
        return JSONResponse(
            {
                "name": "towpath",
                "version": __version__,
                "broker": self._observed.broker_id,
                "paths": ["/metrics", "/healthz", "/readyz"],
            }
        )


class _Metrics:
    def __init__(self, observed: Observed) -> None:
        self._observed = observed

    async def answer(self, request: Request) -> Response:
        if self._observed.peers is None or request.query_params.get("local"):
            return Response(await self._own(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
        peers = _wanted_peers(self._observed, request)
        own, others = await asyncio.gather(self._own(), _each(peers, self._fetch))
        texts: dict[int, str | None] = {self._observed.broker_id: own.decode(), **others}
        merged = exposition.merge(dict(sorted(texts.items())))
        return Response(merged, media_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def _own(self) -> bytes:
        if self._observed.refresh is not None:
            await self._observed.refresh()
        return generate_latest(self._observed.registry)

    async def _fetch(self, peer: Peer) -> str | None:
        try:
            answer = await ask(peer, "/metrics?local=1")
        except PeerError:
            return None
        return answer.body.decode("utf-8", "replace") if answer.status == 200 else None


class _Ready:
    def __init__(self, observed: Observed) -> None:
        self._observed = observed

    async def answer(self, request: Request) -> Response:
        readiness = await self._observed.health.check()
        own = {name: part.as_json() for name, part in readiness.parts.items()}
        brokers: dict[str, object] = {str(self._observed.broker_id): own}
        failing = [name for name, part in readiness.parts.items() if part.error is not None]
        answers = await _each(_wanted_peers(self._observed, request), self._ask)
        for broker_id, (ready, parts) in answers.items():
            brokers[str(broker_id)] = parts
            if not ready:
                failing.append(f"broker {broker_id}")
        body = {"ready": not failing, "failing": failing, "brokers": brokers}
        return JSONResponse(body, status_code=503 if failing else 200)

    async def _ask(self, peer: Peer) -> tuple[bool, object]:
        """Whether the peer is ready, and what it says of its parts."""
        try:
            answer = await ask(peer, "/readyz?local=1")
            parts = json.loads(answer.body)["brokers"][str(peer.broker_id)]
        except PeerError as error:
            return False, {"http": {"ok": False, "error": str(error)}}
        except (ValueError, LookupError, TypeError):
            return False, {"http": {"ok": False, "error": "the answer is not a broker's"}}
        return answer.status == 200, parts


async def _each(peers: list[Peer], call: Callable[[Peer], Awaitable[T]]) -> dict[int, T]:
    """Every peer's answer by broker id, a bounded number asked at once."""
    slots = asyncio.Semaphore(PEERS_ASKED_AT_ONCE)

    async def one(peer: Peer) -> T:
        async with slots:
            return await call(peer)

    answers = await asyncio.gather(*(one(peer) for peer in peers))
    return {peer.broker_id: answer for peer, answer in zip(peers, answers, strict=True)}
