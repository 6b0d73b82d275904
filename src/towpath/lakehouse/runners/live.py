"""How far running jobs have come, told by their workers while Spark says nothing.

Spark hands results over when a task ends, and a task has many jobs. Workers therefore send small
datagrams to the driver. They are for people only: one that is lost, late or not wanted by a
firewall changes nothing but a progress bar. Each carries the run's token, so that nobody else's
are shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Callable, Iterator

from towpath.lakehouse.jobs.teller import decode
from towpath.lakehouse.plan import JobProgress

DATAGRAM_BYTES_MAX = 512
READS_PER_TURN = 64
"""Datagrams that are taken at once, so that a flood of them does not hold up the event loop."""

Advanced = Callable[[JobProgress], None]


@contextlib.contextmanager
def listening(
    loop: asyncio.AbstractEventLoop, bind_host: str, told_host: str, advanced: Advanced
) -> Iterator[str | None]:
    """The address to give to the workers of a run, while what they tell goes to `advanced` on the
    loop. For the thread that waits for Spark. None where no port can be had."""
    try:
        family, *_, address = socket.getaddrinfo(bind_host, 0, type=socket.SOCK_DGRAM)[0]
        port = socket.socket(family, socket.SOCK_DGRAM)
        port.bind(address)
    except OSError:
        yield None
        return
    port.setblocking(False)
    token = secrets.token_hex(16)

    def read() -> None:
        for _ in range(READS_PER_TURN):
            try:
                data = port.recv(DATAGRAM_BYTES_MAX)
            except OSError:
                return
            if (progress := decode(token, data)) is not None:
                advanced(progress)

    def close() -> None:
        loop.remove_reader(port)
        port.close()

    loop.call_soon_threadsafe(loop.add_reader, port, read)
    try:
        yield f"{token}@{port.getsockname()[1]}@{told_host}"
    finally:
        loop.call_soon_threadsafe(close)
