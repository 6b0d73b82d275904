"""Connections that asked one question each and then say nothing."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
from collections.abc import Iterator

SPARE_FILES = 512
"""Descriptors besides the connections: pipes, logs, the brokers' own files."""

API_VERSIONS = 18
_BODY = struct.pack(">hhih", API_VERSIONS, 0, 1, 5) + b"bench"
REQUEST = struct.pack(">i", len(_BODY)) + _BODY


def allow_files() -> None:
    """Raise this process's limit of open files, which its children inherit, as far as it goes."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_possible(wanted: int) -> int:
    """How many of the wanted connections the limit of open files allows."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, soft - SPARE_FILES))


@contextlib.contextmanager
def idle_connections(port: int, count: int) -> Iterator[None]:
    """Hold `count` connections, each of which has been answered once."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            connection.sendall(REQUEST)
            _receive_frame(connection)
        yield


def _receive_frame(connection: socket.socket) -> None:
    (left,) = struct.unpack(">i", _receive(connection, 4))
    _receive(connection, left)


def _receive(connection: socket.socket, size_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < size_bytes:
        piece = connection.recv(size_bytes - len(data))
        if not piece:
            raise ConnectionError("the broker closed an idle connection")
        data += piece
    return bytes(data)
