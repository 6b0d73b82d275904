"""A connection that speaks any version of any message the codec knows, and nothing else.

It does what it is told: no retries, no state, one client id. Several connections are several
members of a group.
"""

from __future__ import annotations

import importlib
import select
import socket
import struct

from towpath.kafka.codec import decode, encode
from towpath.kafka.codec.schema import ApiMessage

ANSWER_TIMEOUT_S = 15.0
API_VERSIONS_KEY = 18


class ConnectionClosed(AssertionError):
    """The broker closed the connection instead of answering."""


class NoAnswer(AssertionError):
    """The broker did not answer in time."""


def response_class(request: ApiMessage) -> type[ApiMessage]:
    """The class of the answer to a request."""
    kind = type(request)
    module = importlib.import_module(kind.__module__)
    found: type[ApiMessage] = getattr(module, kind.__name__.removesuffix("Request") + "Response")
    return found


class Pending:
    """A request that was sent and whose answer was not read yet."""

    def __init__(self, connection: GoldenConnection, request: ApiMessage, version: int) -> None:
        self.request = request
        self.version = version
        self._connection = connection

    def has_answer(self) -> bool:
        """Whether bytes of an answer have arrived."""
        return self._connection.has_bytes()

    def read(self) -> ApiMessage:
        """The answer; ConnectionClosed if the broker hung up instead."""
        return self._connection.receive(self)


class GoldenConnection:
    """One TCP connection with a client id of its own. Answers come in the order of requests."""

    def __init__(self, port: int, client_id: str) -> None:
        self.client_id = client_id
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sent = 0
        self._received = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def send(self, request: ApiMessage, version: int) -> Pending:
        """Send a request without waiting for its answer."""
        self._sent += 1
        client_id = self.client_id.encode()
        header = struct.pack(">hhih", request.API_KEY, version, self._sent, len(client_id))
        tags = b"\0" if version >= request.FLEXIBLE_SINCE else b""
        frame = header + client_id + tags + encode(request, version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        return Pending(self, request, version)

    def receive(self, pending: Pending) -> ApiMessage:
        """The next answer, which must be that of `pending`."""
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(size)
        self._received += 1
        (correlation_id,) = struct.unpack_from(">i", frame)
        assert correlation_id == self._received, "an answer out of order"
        request = pending.request
        at = 4
        if pending.version >= request.FLEXIBLE_SINCE and request.API_KEY != API_VERSIONS_KEY:
            assert frame[4] == 0, "tagged fields in the header"
            at = 5
        return decode(response_class(request), pending.version, frame[at:])

    def has_bytes(self) -> bool:
        """Whether something can be read without waiting."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = self._socket.recv(size)
            except ConnectionResetError:
                part = b""
            except TimeoutError as late:
                raise NoAnswer(f"{self.client_id} has no answer") from late
            if not part:
                raise ConnectionClosed(f"{self.client_id}: the broker closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
