"""Where each API registers itself; the matrix that ApiVersions answers is derived from this.

A handler is `async def handle(request, context) -> response`. Requests of one connection start in
the order of their arrival, each when the one before has finished or called `context.release()`:
Produce releases once its batches are enqueued in order. Answers always leave in request order.
A handler that returns None sends no answer (Produce with acks=0); one that raises
`CloseConnection` ends the connection without an answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from towpath.cluster.view import View
from towpath.cluster.zones import zone_of
from towpath.kafka.services import Services

Request = TypeVar("Request")
Response = TypeVar("Response")


class CloseConnection(Exception):
    """Close the connection: an error that the client cannot be told of (Produce with acks=0)."""


@dataclass(slots=True)
class RequestContext:
    """Who asks, in which version, and what the handler may use."""

    services: Services
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    connection_id: int
    peer: str
    release: Callable[[], None]
    """Let the connection's next request start before this one is answered. Idempotent."""

    @property
    def zone(self) -> str | None:
        """The zone that the client names in its `client.id`."""
        return zone_of(self.client_id)

    def view(self) -> View:
        """The brokers that this client is shown now."""
        return self.services.cluster.view(self.zone)


@dataclass(frozen=True, slots=True)
class Api:
    """One registered API."""

    key: int
    name: str
    min_version: int
    max_version: int
    advertised_min_version: int
    request_type: type[Any]
    response_type: type[Any]
    handle: Callable[[Any, RequestContext], Awaitable[Any | None]]
    cancel_on_disconnect: bool = False
    """Whether a client that is gone ends the request: true of mere waiting, never of writing."""


APIS: dict[int, Api] = {}


def api(
    *,
    key: int,
    versions: tuple[int, int],
    request: type[Request],
    response: type[Response],
    advertised_min_version: int | None = None,
    cancel_on_disconnect: bool = False,
) -> Callable[
    [Callable[[Request, RequestContext], Awaitable[Response | None]]],
    Callable[[Request, RequestContext], Awaitable[Response | None]],
]:
    """Register the decorated handler for `key` in `versions` (both ends included)."""

    def register(
        handle: Callable[[Request, RequestContext], Awaitable[Response | None]],
    ) -> Callable[[Request, RequestContext], Awaitable[Response | None]]:
        if key in APIS:
            raise ValueError(f"API key {key} is registered twice")
        APIS[key] = Api(
            key=key,
            name=request.__name__.removesuffix("Request"),
            min_version=versions[0],
            max_version=versions[1],
            advertised_min_version=(
                versions[0] if advertised_min_version is None else advertised_min_version
            ),
            request_type=request,
            response_type=response,
            handle=handle,
            cancel_on_disconnect=cancel_on_disconnect,
        )
        return handle

    return register
