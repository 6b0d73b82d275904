"""The HTTP port: a uvicorn server on the broker's own event loop.

`bind` comes first, so that the address is known and a taken port is noticed at once;
the web libraries are loaded in the background and the first requests wait in the accept queue.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

from towpath.observe.health import Health
from towpath.observe.peers import ListPeers

if TYPE_CHECKING:
    import uvicorn
    from prometheus_client import CollectorRegistry

BACKLOG = 128
CONNECTIONS_MAX = 256
"""More HTTP connections than this get 503 at once."""

SHUTDOWN_SECONDS = 2
"""How long a stop waits for answers under way."""

log = structlog.get_logger(__name__)


class HttpServer:
    """Serves metrics and health of one broker; with `peers`, of all of them."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        broker_id: int,
        registry: CollectorRegistry,
        health: Health,
        peers: ListPeers | None = None,
        refresh: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._broker_id = broker_id
        self._registry = registry
        self._health = health
        self._peers = peers
        self._refresh = refresh
        self._socket: socket.socket | None = None
        self._serving: asyncio.Task[None] | None = None
        self._server: uvicorn.Server | None = None
        self._stopping = False

    @property
    def address(self) -> tuple[str, int]:
        """The bound host and port; valid after `bind`."""
        if self._socket is None:
            raise RuntimeError("the HTTP server is not started")
        host, port = self._socket.getsockname()[:2]
        return host, port

    @property
    def url(self) -> str:
        """The base URL; valid after `bind`."""
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def start(self) -> None:
        """Bind and serve."""
        self.bind()
        self.serve()

    def bind(self) -> None:
        """Bind and listen; OSError if the port is taken. Requests wait until `serve`."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((self._host, self._port))
            bound.listen(BACKLOG)
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
        self._socket = bound

    def serve(self) -> None:
        """Load the web libraries and answer, in the background."""
        if self._socket is None:
            raise RuntimeError("the HTTP server is not bound")
        self._serving = asyncio.create_task(self._serve(self._socket), name="http")

    async def _serve(self, bound: socket.socket) -> None:
        try:
            # Importing takes a third of a second; in a thread the Kafka port answers meanwhile.
            self._server = await asyncio.to_thread(self._build)
            if not self._stopping:
                await self._server.serve(sockets=[bound])
        except Exception:
            log.exception("the HTTP port failed")
            raise

    def _build(self) -> uvicorn.Server:
        import uvicorn

        from towpath.observe import app

        class EmbeddedServer(uvicorn.Server):
            """Leaves the process's signals to the command that runs the broker."""

            @contextmanager
            def capture_signals(self) -> Iterator[None]:
                yield

        observed = app.Observed(
            self._broker_id, self._registry, self._health, self._peers, self._refresh
        )
        config = uvicorn.Config(
            app.build(observed),
            http="h11",
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        config.load()
        return EmbeddedServer(config)

    async def stop(self) -> None:
        """Stop listening, let answers under way finish, and release the port. Idempotent."""
        self._stopping = True
        if self._server is not None:
            self._server.should_exit = True
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
