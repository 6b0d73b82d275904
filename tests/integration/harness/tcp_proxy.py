"""A TCP proxy whose line can be cut: the server behind it goes on, its clients cannot reach it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from tests.integration.harness.ports import free_ports

CHUNK_BYTES = 1 << 16
CALL_TIMEOUT_S = 10.0


class TcpProxy:
    """Listens on a port of its own, in a thread of its own, while it is not cut."""

    def __init__(self, target_port: int) -> None:
        self.port = free_ports()
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where HTTP clients find the server."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()
        self._call(self._listen())

    def cut(self) -> None:
        """End every connection; new ones are refused."""
        self._call(self._close())

    def restore(self) -> None:
        """Listen again, on the same port."""
        self._call(self._listen())

    def stop(self) -> None:
        """Cut it for good."""
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_TIMEOUT_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.current_task()
        assert serving is not None
        self._connections.add(serving)
        upstream: asyncio.StreamWriter | None = None
        try:
            answers, upstream = await asyncio.open_connection("127.0.0.1", self._target_port)
            await asyncio.gather(_pump(reader, upstream), _pump(answers, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(serving)
            for end in (writer, upstream):
                if end is not None:
                    end.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
