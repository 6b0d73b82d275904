"""One request on its way through a connection, from its frame to its answer."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

from towpath.kafka.codec import writer
from towpath.kafka.codec.compile_writer import Write
from towpath.kafka.codec.schema import ApiMessage
from towpath.kafka.routes import Route, response_header_is_flexible
from towpath.objects.store import Buffer

_SIZE_AND_CORRELATION = struct.Struct(">ii")


class Call:
    """A place in the queue of answers.

    `chunks` is the answer, None if there is none to send; it counts once `done` is set. A call
    that `ends` the connection has no answer: what comes before it is sent, then it is closed.
    """

    __slots__ = (
        "chunks", "client_id", "correlation_id", "cost_bytes", "done", "ends", "on_release",
        "received_s", "request", "route", "task",
    )  # fmt: skip

    def __init__(self, correlation_id: int, client_id: str | None) -> None:
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.chunks: list[Buffer] | None = None
        self.done = False
        self.ends = False
        self.cost_bytes = 0
        self.received_s = 0.0
        self.request: Any = None
        self.route: Route | None = None
        self.task: asyncio.Task[Any] | None = None
        self.on_release: Callable[[Call], None] | None = None

    def release(self) -> None:
        """Let the next request start before this one is answered."""
        if self.on_release is not None:
            self.on_release(self)

    def answer(self, response: ApiMessage, write: Write, flexible_header: bool) -> None:
        """Encode the answer with its header and length; large records stay where they are."""
        chunks: list[Buffer] = []
        # Length, correlation id and, in flexible versions, no tagged fields.
        head = bytearray(9 if flexible_header else 8)
        chunks.append(write(response, head, chunks))
        size = sum(map(len, chunks)) - 4
        _SIZE_AND_CORRELATION.pack_into(head, 0, size, self.correlation_id)
        self.chunks = chunks

    def answer_in(self, response: ApiMessage, version: int) -> None:
        """Encode an answer outside the registered routes."""
        cls = type(response)
        self.answer(response, writer(cls, version), response_header_is_flexible(cls, version))
