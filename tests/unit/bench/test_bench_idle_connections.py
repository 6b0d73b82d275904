"""Idle connections against a listener that answers as a broker does."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from bench import idle_connections as idle


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """A port, and the requests it was sent; it answers each connection once, in two pieces."""
    requests: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            while True:
                connection = stack.enter_context(server.accept()[0])
                requests.append(connection.recv(1024))
                connection.sendall(struct.pack(">i", 6) + b"ab")
                connection.sendall(b"cdef")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1], requests
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def test_every_connection_asks_once(listener: tuple[int, list[bytes]]) -> None:
    port, requests = listener
    with idle.idle_connections(port, 3):
        assert requests == [idle.REQUEST] * 3
    size, api_key, version = struct.unpack_from(">ihh", idle.REQUEST)
    assert (size, api_key, version) == (len(idle.REQUEST) - 4, idle.API_VERSIONS, 0)


def test_no_more_than_the_limit_of_files_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    assert idle.connections_possible(1000) == 1024 - idle.SPARE_FILES
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert idle.connections_possible(1000) == 1000
