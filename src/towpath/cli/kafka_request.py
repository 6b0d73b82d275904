"""One request to one broker over a blocking socket, for what the client library cannot ask."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from towpath.kafka.codec.schema import ApiMessage

    A = TypeVar("A", bound=ApiMessage)

CORRELATION_ID = 1
CLIENT_ID = b"towpath-cli"
TIMEOUT_SECONDS = 10.0
ANSWER_MAX_BYTES = 67_108_864
RECEIVED_AT_ONCE_BYTES = 1_048_576
NO_TAGS = b"\x00"


class RequestFailed(Exception):
    """The broker did not answer, or not in this version of the request."""


def ask(address: tuple[str, int], request: ApiMessage, version: int, answer: type[A]) -> A:
    """The broker's answer to a request. Raises RequestFailed."""
    from towpath.kafka.codec import codec
    from towpath.kafka.codec.primitives import MalformedMessage

    is_flexible = version >= request.FLEXIBLE_SINCE
    head = struct.pack(">hhih", request.API_KEY, version, CORRELATION_ID, len(CLIENT_ID))
    body = head + CLIENT_ID + (NO_TAGS if is_flexible else b"") + codec.encode(request, version)
    received = _exchange(address, struct.pack(">i", len(body)) + body)
    header_size = 4 + (len(NO_TAGS) if is_flexible else 0)
    if received[:4] != struct.pack(">i", CORRELATION_ID):
        raise RequestFailed("the answer belongs to another request")
    try:
        return codec.decode(answer, version, received[header_size:])
    except MalformedMessage as error:
        raise RequestFailed(f"the answer cannot be read: {error}") from error


def _exchange(address: tuple[str, int], frame: bytes) -> bytes:
    try:
        with socket.create_connection(address, timeout=TIMEOUT_SECONDS) as connection:
            connection.sendall(frame)
            length = int.from_bytes(_receive(connection, 4), "big")
            if length > ANSWER_MAX_BYTES:
                raise RequestFailed(f"answer of {length} bytes")
            return _receive(connection, length)
    except OSError as error:
        raise RequestFailed(error.strerror or str(error)) from error


def _receive(connection: socket.socket, length: int) -> bytes:
    received = bytearray()
    while len(received) < length:
        chunk = connection.recv(min(length - len(received), RECEIVED_AT_ONCE_BYTES))
        if not chunk:
            raise RequestFailed("the broker closed the connection")
        received += chunk
    return bytes(received)
