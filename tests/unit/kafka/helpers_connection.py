"""A connection over a fake outlet, with handlers whose end the test decides."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field, replace
from typing import Any, cast

from towpath.kafka.apis.api_versions import handle_api_versions
from towpath.kafka.apis.registry import APIS, Api, CloseConnection, RequestContext
from towpath.kafka.arena import BufferPool, ReceiveArena
from towpath.kafka.codec import decode, encode
from towpath.kafka.codec.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from towpath.kafka.codec.messages.fetch import FetchRequest, FetchResponse
from towpath.kafka.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from towpath.kafka.codec.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from towpath.kafka.codec.messages.produce import ProduceRequest, ProduceResponse
from towpath.kafka.codec.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from towpath.kafka.codec.schema import ApiMessage
from towpath.kafka.connection import Connection, Shared
from towpath.kafka.flow_control import InflightBytes
from towpath.kafka.routes import Routes
from towpath.kafka.services import KafkaSettings, Services
from towpath.objects.store import Buffer
from towpath.observe.metrics import Metrics
from towpath.runtime import inline_runtime

assert handle_api_versions is not None


def services(**settings: Any) -> Services:
    """Services of which the connection uses only settings and metrics."""
    unused = cast(Any, None)
    return Services(
        log=unused,
        topics=unused,
        cluster=unused,
        producer_ids=unused,
        settings=KafkaSettings(**settings),
        metrics=Metrics(),
        runtime=inline_runtime(1),
        broker_configs={},
        groups=unused,
        offsets=unused,
    )


@dataclass
class Handlers:
    """Handlers under the test's control, and what they saw."""

    started: list[int] = field(default_factory=list)
    gates: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    cancelled: list[int] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)

    async def instant(self, request: Any, context: RequestContext) -> HeartbeatResponse:
        """Heartbeat: answers the generation at once."""
        self.started.append(context.correlation_id)
        return HeartbeatResponse(throttle_time_ms=request.generation_id)

    async def gated(self, request: Any, context: RequestContext) -> SyncGroupResponse | None:
        """SyncGroup: waits for its gate; the group's name says what else it does."""
        self.started.append(context.correlation_id)
        if request.group_id == "release":
            context.release()
        await self._gate(context)
        if request.group_id == "silent":
            return None
        return SyncGroupResponse(protocol_name=request.group_id)

    async def poll(self, request: Any, context: RequestContext) -> FetchResponse:
        """Fetch: a wait that a disconnect ends."""
        self.started.append(context.correlation_id)
        try:
            async with asyncio.timeout(None):
                await self._gate(context)
        except asyncio.CancelledError:
            self.cancelled.append(context.correlation_id)
            raise
        return FetchResponse()

    async def produce(self, request: Any, context: RequestContext) -> ProduceResponse | None:
        """Produce: keeps the request; acks=0 has no answer."""
        self.seen.append(request)
        return None if request.acks == 0 else ProduceResponse()

    async def failing(self, request: Any, context: RequestContext) -> Any:
        """LeaveGroup and DescribeGroups: fail at once, or after a turn, or close."""
        name = getattr(request, "group_id", "")
        if name == "close":
            raise CloseConnection("asked to")
        if name == "later":
            await asyncio.sleep(0)
        raise RuntimeError("broken handler")

    async def _gate(self, context: RequestContext) -> None:
        gate = self.gates[context.correlation_id] = asyncio.get_running_loop().create_future()
        await gate

    def apis(self) -> dict[int, Api]:
        """A registry of its own."""
        return {
            18: APIS[18],
            12: _api(HeartbeatRequest, HeartbeatResponse, self.instant),
            14: _api(SyncGroupRequest, SyncGroupResponse, self.gated),
            13: _api(LeaveGroupRequest, LeaveGroupResponse, self.failing),
            15: _api(DescribeGroupsRequest, DescribeGroupsResponse, self.failing),
            0: _api(ProduceRequest, ProduceResponse, self.produce),
            1: replace(_api(FetchRequest, FetchResponse, self.poll), cancel_on_disconnect=True),
        }


def _api(request: type[ApiMessage], response: type[ApiMessage], handle: Any) -> Api:
    first, last = request.VERSIONS
    name = request.__name__.removesuffix("Request")
    return Api(request.API_KEY, name, first, last, first, request, response, handle)


def frame(
    message: ApiMessage, version: int, correlation_id: int, tagged_header: bytes = b"\0"
) -> bytes:
    """A whole request frame."""
    flexible = version >= message.FLEXIBLE_SINCE
    header = struct.pack(">hhih", message.API_KEY, version, correlation_id, 4) + b"test"
    body = header + (tagged_header if flexible else b"") + encode(message, version)
    return struct.pack(">i", len(body)) + body


def instant(correlation_id: int, version: int = 4) -> bytes:
    return frame(HeartbeatRequest(generation_id=correlation_id), version, correlation_id)


def gated(correlation_id: int, what: str = "") -> bytes:
    return frame(SyncGroupRequest(group_id=what), 5, correlation_id)


def answers(data: bytes) -> list[tuple[int, bytes]]:
    """Correlation id and the rest of each answer."""
    found = []
    while data:
        size, correlation_id = struct.unpack_from(">ii", data)
        assert len(data) >= size + 4
        found.append((correlation_id, data[8 : size + 4]))
        data = data[size + 4 :]
    return found


class FakeOutlet:
    """Keeps what a connection asked for."""

    def __init__(self) -> None:
        self.sent = b""
        self.writes = 0
        self.closed = False
        self.paused = False

    def write(self, chunks: list[Buffer]) -> None:
        assert not self.closed
        self.sent += b"".join(chunks)
        self.writes += 1

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        assert not self.paused
        self.paused = True

    def resume_reading(self) -> None:
        assert self.paused
        self.paused = False


class Harness:
    """One connection, its handlers and its outlet."""

    def __init__(self, shared: Shared | None = None, **settings: Any) -> None:
        self.handlers = Handlers()
        self.shared = shared or self._share(services(**settings))
        self.outlet = FakeOutlet()
        self.connection = Connection(self.shared, 1, "127.0.0.1:1", self.outlet)

    def _share(self, below: Services) -> Shared:
        pool = BufferPool()
        loop = asyncio.get_running_loop()
        return Shared(
            services=below,
            routes=Routes(self.handlers.apis(), below.metrics),
            inflight=InflightBytes(below.settings.process_inflight_max_bytes),
            pool=pool,
            arena=ReceiveArena(pool),
            loop=loop,
        )

    def feed(self, data: bytes, step: int | None = None) -> None:
        """Hand over bytes as reads of at most `step`, as long as reading is not paused."""
        while data and not self.outlet.paused:
            buffer = self.connection.frames.get_buffer()
            count = min(len(buffer), len(data), step or len(data))
            buffer[:count] = data[:count]
            del buffer
            data = data[count:]
            self.connection.received(count)
        self.unread = data

    async def open_gate(self, correlation_id: int) -> None:
        self.handlers.gates.pop(correlation_id).set_result(None)
        await self.turns()

    async def turns(self, count: int = 5) -> None:
        """Let callbacks run."""
        for _ in range(count):
            await asyncio.sleep(0)

    def is_paused(self) -> bool:
        return self.outlet.paused

    def is_held(self) -> bool:
        return self.connection.frames.held

    def is_closed(self) -> bool:
        return self.outlet.closed

    @property
    def answered(self) -> list[int]:
        return [correlation_id for correlation_id, _ in answers(self.outlet.sent)]

    def metric(self, name: str, **labels: str) -> float:
        self.shared.routes.flush_metrics()
        value = self.shared.services.metrics.registry.get_sample_value(name, labels)
        return 0.0 if value is None else value


def body_of(harness: Harness, index: int, cls: type[Any], version: int) -> Any:
    """The decoded answer at `index`; the header's tagged fields are skipped."""
    data = answers(harness.outlet.sent)[index][1]
    flexible = version >= cls.FLEXIBLE_SINCE and cls.API_KEY != 18
    return decode(cls, version, data[1:] if flexible else data)
