"""One Kafka connection without I/O: frames in, handlers driven in order, answers out in order.

The shell (`server.py`, or the simulation) hands over received bytes and carries out what the
connection asks of its `Outlet`. Requests start in the order of their arrival, each when the one
before has finished or released; answers leave in the order of the requests. Bytes in work are
counted, and reading pauses while a limit is reached or the client does not read its answers.
Whatever is wrong with a client's bytes ends in one place, `_malformed`, and closes this
connection only.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, cast

import structlog

from towpath.kafka import eager
from towpath.kafka.apis.registry import CloseConnection, RequestContext
from towpath.kafka.apis.rejected import refuse
from towpath.kafka.arena import BufferPool, ReceiveArena
from towpath.kafka.call import Call
from towpath.kafka.codec.codec import READ_ERRORS
from towpath.kafka.codec.primitives import (
    MalformedMessage,
    malformed,
    read_varint,
    skip_tagged_fields,
)
from towpath.kafka.deferred import Deferred
from towpath.kafka.errors import error_code_of
from towpath.kafka.flow_control import REQUEST_OVERHEAD_BYTES, InflightBytes
from towpath.kafka.framing import FrameReader, MalformedFrame
from towpath.kafka.routes import Route, Routes
from towpath.kafka.services import Services
from towpath.objects.store import Buffer

log = structlog.get_logger(__name__)

STARTS_PER_TURN = 100
"""Requests that one connection may start before the others have their turn."""
_HEADER = struct.Struct(">hhih")
"""API key, version, correlation id and the length of the client id."""


class Outlet(Protocol):
    """What a connection may ask of its transport."""

    def write(self, chunks: list[Buffer]) -> None:
        """Send the buffers in order; they do not change until they are sent."""
        ...

    def close(self) -> None:
        """Send what was written, then close. Idempotent."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Shared:
    """What all connections of a process share."""

    services: Services
    routes: Routes
    inflight: InflightBytes
    pool: BufferPool
    arena: ReceiveArena
    loop: asyncio.AbstractEventLoop
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    """The handlers that are running, also those whose client is gone."""


class Connection:
    """The state of one connection."""

    __slots__ = (
        "_admitted_bytes", "_answers", "_client_id", "_current", "_draining", "_lost", "_outlet",
        "_pump_is_due", "_pumping", "_reading_paused", "_running", "_shared", "_waiting",
        "_writing_paused", "frames", "id", "inflight_bytes", "last_active_s", "peer",
    )  # fmt: skip

    def __init__(self, shared: Shared, connection_id: int, peer: str, outlet: Outlet) -> None:
        self.id = connection_id
        self.peer = peer
        self.inflight_bytes = 0
        self.last_active_s = shared.loop.time()
        settings = shared.services.settings
        self.frames = FrameReader(
            shared.arena, shared.pool, settings.socket_request_max_bytes, self._admit
        )
        self._shared = shared
        self._outlet = outlet
        self._client_id: str | None = None
        # Requests
        self._waiting: deque[Call] = deque()
        self._answers: deque[Call] = deque()
        self._running: set[Call] = set()
        self._current: Call | None = None
        self._admitted_bytes = 0
        # State
        self._pumping = False
        self._pump_is_due = False
        self._reading_paused = False
        self._writing_paused = False
        self._draining = False
        self._lost = False

    @property
    def idle(self) -> bool:
        """Whether no request is waiting, running or unanswered."""
        return not (self._answers or self._running or self._waiting)

    # What the shell reports

    def received(self, count: int) -> None:
        """`count` bytes were read into `frames.get_buffer()`. Answers are written together."""
        self.last_active_s = self._shared.loop.time()
        if self._reads_no_more():
            return
        try:
            for frame in self.frames.received(count):
                self._receive(frame)
                if self._reads_no_more():
                    break
        except MalformedFrame as error:
            self._malformed(str(error), None)
        self._pump()

    def _reads_no_more(self) -> bool:
        return self._draining or self._lost

    def pause_writing(self) -> None:
        """The client does not read its answers."""
        self._writing_paused = True
        self._update_reading()

    def resume_writing(self) -> None:
        """The client has read enough for more answers."""
        self._writing_paused = False
        self._pump()

    def lost(self) -> None:
        """The transport is closed. What was received is still carried out, without answers."""
        self._lost = True
        self._writing_paused = False
        self._shared.inflight.stop_waiting(self._wake)
        self._forget_admitted()
        # Now and not when the cycle collector finds this connection: the frame may be large.
        self.frames.close()
        for call in [c for c in self._waiting if c.route and c.route.api.cancel_on_disconnect]:
            self._waiting.remove(call)
            self._done(call)
        self._cancel_running(only_waits=True)
        self._pump()

    def drain(self) -> None:
        """Finish what runs, then close. Requests that have not started are dropped unanswered."""
        if self._draining:
            return
        self._end_after_answers(Call(0, None))
        while self._waiting:
            call = self._waiting.popleft()
            call.ends = True
            self._done(call)
        self._cancel_running(only_waits=True)
        self._flush()

    def abort(self) -> None:
        """Cancel everything that still runs."""
        self._cancel_running(only_waits=False)

    # Frames

    def _receive(self, frame: memoryview) -> None:
        """Decode a frame and queue its call."""
        cost = len(frame) + REQUEST_OVERHEAD_BYTES
        if self._admitted_bytes:
            self._admitted_bytes = 0
        else:
            self._count(cost)
        correlation_id: int | None = None
        try:
            key, version, correlation_id, length = _HEADER.unpack_from(frame)
            at = 10
            if length >= 0:
                at += length
                if at > len(frame):
                    malformed("the client id exceeds the frame")
                self._client_id = str(frame[10:at], "utf-8")
            else:
                self._client_id = None
            call = Call(correlation_id, self._client_id)
            call.cost_bytes = cost
            route = self._shared.routes.find(key, version)
            if route is None:
                self._refuse(call, key, version, frame[at:])
                return
            self._read_request(call, route, frame, at)
        except (MalformedMessage, *READ_ERRORS) as error:
            self._uncount(cost)
            self._malformed(str(error), correlation_id)

    def _read_request(self, call: Call, route: Route, frame: memoryview, at: int) -> None:
        if route.request_is_flexible:
            count, at = read_varint(frame, at)
            if count:
                at = skip_tagged_fields(frame, at, count)
        call.request, _ = route.read(frame, at)
        call.route = route
        call.received_s = self.last_active_s
        route.meter.count()
        self._answers.append(call)
        self._waiting.append(call)

    def _refuse(self, call: Call, key: int, version: int, body: memoryview) -> None:
        """Answer or end a request that no route serves, with one line in the log."""
        refusal = refuse(self._shared.routes.apis, key, version, body)
        log.warning(
            "request refused",
            api_key=key,
            api_version=version,
            reason=refusal.reason,
            answered=refusal.response is not None,
            **self._who(call.correlation_id),
        )
        if refusal.response is None:
            self._end_after_answers(call)
        else:
            call.answer_in(refusal.response, refusal.response_version)
            self._answers.append(call)
        self._done(call)

    def _malformed(self, reason: str, correlation_id: int | None) -> None:
        """The one place where bytes that cannot be followed end."""
        self._shared.services.metrics.malformed_frames.inc()
        log.warning("malformed frame", reason=reason, **self._who(correlation_id))
        self._end_after_answers(Call(0, None))

    def _end_after_answers(self, call: Call) -> None:
        """Read no more, and close once everything before `call` is answered."""
        self._draining = True
        self._forget_admitted()
        call.ends = call.done = True
        self._answers.append(call)
        self._update_reading()

    def _who(self, correlation_id: int | None) -> dict[str, Any]:
        return {
            "connection_id": self.id,
            "peer": self.peer,
            "client_id": self._client_id,
            "correlation_id": correlation_id,
        }

    # Running handlers

    def _pump(self) -> None:
        """Start what may start, send what may be sent, read on if there is room."""
        if self._pumping:
            return
        self._pumping = True
        try:
            for _ in range(STARTS_PER_TURN):
                if not self._waiting or self._current is not None or self._writing_paused:
                    break
                self._current = call = self._waiting.popleft()
                self._start(call)
            else:
                self._pump_soon()
        finally:
            self._pumping = False
        self._flush()
        self._update_reading()

    def _pump_soon(self) -> None:
        """Pump at the end of this turn of the loop."""
        if not self._pump_is_due:
            self._pump_is_due = True
            self._shared.loop.call_soon(self._pump_now)

    def _pump_now(self) -> None:
        self._pump_is_due = False
        self._pump()

    def _start(self, call: Call) -> None:
        route, request = cast(Route, call.route), call.request
        call.request = None
        call.on_release = self._released
        context = RequestContext(
            self._shared.services,
            route.api.key,
            route.version,
            call.correlation_id,
            call.client_id,
            self.id,
            self.peer,
            call.release,
        )
        try:
            handler = route.handle(request, context)
            del request
            if isinstance(handler, Deferred):
                handler.then(partial(self._deferred_done, call, route))
                return
            response, task = eager.start(
                cast("Coroutine[Any, Any, Any]", handler), self._shared.loop
            )
        except Exception as error:  # noqa: BLE001 - a handler's failure ends in `_failed`.
            self._failed(call, route, error)
            return
        if task is None:
            self._finished(call, route, response)
        else:
            call.task = task
            self._running.add(call)
            self._shared.tasks.add(task)
            task.add_done_callback(partial(self._task_done, call, route))

    def _task_done(self, call: Call, route: Route, task: asyncio.Task[Any]) -> None:
        self._running.discard(call)
        self._shared.tasks.discard(task)
        call.task = None
        if task.cancelled():
            call.ends = True
            self._done(call)
        elif (error := task.exception()) is not None:
            self._failed(call, route, error)
        else:
            self._finished(call, route, task.result())
        # One flush resolves many requests in one turn of the loop: their answers leave together.
        self._pump_soon()

    def _deferred_done(
        self, call: Call, route: Route, response: Any, error: BaseException | None
    ) -> None:
        if error is not None:
            self._failed(call, route, error)
        else:
            self._finished(call, route, response)
        if not self._pumping:
            self._pump_soon()

    def _released(self, call: Call) -> None:
        call.on_release = None
        if self._current is call:
            self._current = None
            # A handler's own step is on the stack: the next one starts when it has ended.
            if not self._pumping and self._waiting:
                self._pump_soon()

    def _finished(self, call: Call, route: Route, response: Any | None) -> None:
        if response is not None and not self._lost:
            try:
                call.answer(response, route.write, route.response_is_flexible)
            except Exception as error:  # noqa: BLE001 - see `_failed`.
                self._failed(call, route, error)
                return
        route.meter.observe(self._shared.loop.time() - call.received_s)
        self._done(call)

    def _failed(self, call: Call, route: Route, error: BaseException) -> None:
        """Tell the client if the answer has a place for it, else close the connection."""
        who = {**self._who(call.correlation_id), "api": route.api.name}
        if isinstance(error, CloseConnection):
            log.info("connection closed by a handler", reason=str(error), **who)
            call.ends = True
        else:
            log.error("a handler failed", exc_info=error, **who)
            self._answer_failure(call, route, error)
        self._done(call)

    def _answer_failure(self, call: Call, route: Route, error: BaseException) -> None:
        response = route.api.response_type()
        if not any(f.name == "error_code" and f.in_version(route.version) for f in response.FIELDS):
            call.ends = True
            return
        code = error_code_of(error)
        response.error_code = code
        self._shared.services.metrics.request_errors.labels(route.api.name, code.name).inc()
        call.answer(response, route.write, route.response_is_flexible)

    def _done(self, call: Call) -> None:
        call.done = True
        call.request = None
        call.on_release = None
        if self._current is call:
            self._current = None
        self._uncount(call.cost_bytes)
        call.cost_bytes = 0

    def _flush(self) -> None:
        """Write the answers that are next in order."""
        answers = self._answers
        chunks: list[Buffer] = []
        ends = False
        while answers and answers[0].done and not ends:
            call = answers.popleft()
            ends = call.ends
            if call.chunks is not None and not ends:
                chunks += call.chunks
        if self._lost:
            return
        if chunks:
            self._outlet.write(chunks)
        if ends:
            self._draining = True
            answers.clear()
            self._outlet.close()

    def _cancel_running(self, only_waits: bool) -> None:
        for call in list(self._running):
            waits = call.route is not None and call.route.api.cancel_on_disconnect
            if call.task is not None and (waits or not only_waits):
                call.task.cancel()

    # Flow control

    def _admit(self, size_bytes: int) -> bool:
        """Whether there is room for a frame of which only the start has arrived."""
        if self._shared.inflight.full:
            return False
        self._admitted_bytes = size_bytes + REQUEST_OVERHEAD_BYTES
        self._count(self._admitted_bytes)
        return True

    def _forget_admitted(self) -> None:
        self._uncount(self._admitted_bytes)
        self._admitted_bytes = 0

    def _count(self, cost_bytes: int) -> None:
        self.inflight_bytes += cost_bytes
        self._shared.inflight.add(cost_bytes)

    def _uncount(self, cost_bytes: int) -> None:
        if cost_bytes:
            self.inflight_bytes -= cost_bytes
            self._shared.inflight.remove(cost_bytes)

    def _wake(self) -> None:
        """There is room in the process again."""
        if not self._lost and not self._draining:
            if self.frames.held:
                self.frames.retry()
            self._update_reading()

    def _update_reading(self) -> None:
        """Pause or resume reading, as the limits say."""
        if self._lost:
            return
        shared = self._shared
        wait = shared.inflight.full and (self.frames.held or not self.frames.mid_frame)
        if wait and not self._draining:
            shared.inflight.wait(self._wake)
        limit = shared.services.settings.connection_inflight_max_bytes
        pause = (
            wait
            or self.frames.held
            or self._draining
            or self._writing_paused
            or self.inflight_bytes - self._admitted_bytes >= limit
        )
        if pause != self._reading_paused:
            self._reading_paused = pause
            if pause:
                self._outlet.pause_reading()
            else:
                self._outlet.resume_reading()
