"""Free TCP ports on 127.0.0.1, below the range the kernel hands out to outgoing connections."""

from __future__ import annotations

import os
import socket

FIRST_PORT = 20_000
LAST_PORT = 32_000
WORKERS_MAX = 16
PORTS_PER_WORKER = (LAST_PORT - FIRST_PORT) // WORKERS_MAX

_next: int | None = None


def free_ports(count: int = 1) -> int:
    """The first of `count` consecutive free ports.

    Every xdist worker has a range of its own, so that parallel workers never probe the same port,
    and a process never hands out a port twice before it has gone through its range.
    """
    global _next
    low, high = _worker_range()
    if _next is None:
        # Two test runs at once are in the same range: start at different places of it.
        _next = low + (os.getpid() * 37) % PORTS_PER_WORKER
    for _ in range(2 * PORTS_PER_WORKER):
        first = _next if _next + count <= high else low
        _next = first + count
        if all(_is_free(port) for port in range(first, first + count)):
            return first
        _next = first + 1
    raise RuntimeError(f"no {count} consecutive free ports in {low}-{high}")


def _worker_range() -> tuple[int, int]:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    low = FIRST_PORT + (int(worker) % WORKERS_MAX) * PORTS_PER_WORKER
    return low, low + PORTS_PER_WORKER


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
