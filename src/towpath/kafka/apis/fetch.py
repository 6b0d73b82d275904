"""Fetch (key 1), versions 4-18; by topic id from v13.

High watermark and last stable offset are the log end for both isolation levels. Fetch sessions are
not kept: every answer carries session id 0, full fetches (epoch 0 or -1) are served, incremental
ones get FETCH_SESSION_ID_NOT_FOUND and the client falls back. Followers (a replica id) are
refused. An error in any partition is answered at once, with the data of the others.

A consumer that names a rack (`client.rack`, v11+) in which this broker is not, but another one that
it is shown, is sent there (`preferred_read_replica`), as Kafka does with its rack-aware selector.

A fetch that finds less than `min_bytes` waits, holding no records, until enough has come or
`max_wait_ms` is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter

from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.fetch_answer import answer
from towpath.kafka.apis.fetch_round import FetchPart, read_round
from towpath.kafka.apis.partitions import LEADER_EPOCH, PartitionFinder, epoch_refusal
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.fetch import FetchPartition, FetchRequest, FetchResponse
from towpath.kafka.errors import ErrorCode
from towpath.log.interface import Log
from towpath.topics.interface import Topic

TOPIC_ID_SINCE_VERSION = 13
FULL_FETCH_EPOCHS = (0, -1)
NO_STREAM = -1
RECHECK_PAUSE_S = 0.01
"""After growth that was not enough, how long to let more gather before looking again."""


@api(
    key=1,
    versions=(4, 18),
    request=FetchRequest,
    response=FetchResponse,
    cancel_on_disconnect=True,
)
async def handle_fetch(request: FetchRequest, context: RequestContext) -> FetchResponse:
    """Read the asked partitions, waiting for data if the client wants it."""
    started = perf_counter()
    if request.session_epoch not in FULL_FETCH_EPOCHS:
        count_errors(context, "Fetch", (ErrorCode.FETCH_SESSION_ID_NOT_FOUND,))
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    topics = await _resolve(request, context)
    parts = topics[0] if len(topics) == 1 else [part for topic in topics for part in topic]
    limit_bytes = max(0, min(request.max_bytes, context.services.settings.fetch_max_bytes))
    poll = _LongPoll(context.services.log, parts, limit_bytes)
    found_bytes = await poll.run(min(request.min_bytes, limit_bytes), request.max_wait_ms)
    response = answer(request, topics, context)
    count_errors(context, "Fetch", [part.error for part in parts if part.error])
    metrics = context.services.metrics
    if found_bytes:
        metrics.fetched_bytes.inc(found_bytes)
    metrics.fetch_seconds.observe(perf_counter() - started - poll.waited_s)
    return response


async def _resolve(request: FetchRequest, context: RequestContext) -> list[list[FetchPart]]:
    finder = PartitionFinder(context)
    by_id = context.api_version >= TOPIC_ID_SINCE_VERSION
    # The field moved into a tagged struct in v15; the one a version lacks has its default, -1.
    is_follower = request.replica_id >= 0 or request.replica_state.replica_id >= 0
    topics = []
    for named in request.topics:
        indexes = [asked.partition for asked in named.partitions]
        topic = await finder.find(named.topic_id if by_id else named.topic, indexes)
        parts = []
        for asked in named.partitions:
            error = finder.refusal(topic, asked.partition, request.rack_id)
            if not error:
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_follower else _refusal(asked)
            parts.append(_part(asked, topic, error))
        topics.append(parts)
    if request.rack_id:
        _send_nearer(request.rack_id, [part for parts in topics for part in parts], context)
    return topics


def _send_nearer(rack: str, parts: Sequence[FetchPart], context: RequestContext) -> None:
    """Send a client of another rack to the brokers of its own, if it is shown any."""
    here = context.services.cluster.broker_id
    me = context.services.cluster.view(None).get(here)
    if me is not None and me.rack == rack:
        return
    view = context.view()
    for part in parts:
        nearest = view.nearest(part.stream_id, rack) if part.readable else None
        if nearest != here:
            part.nearer = nearest


def _refusal(asked: FetchPartition) -> ErrorCode:
    if asked.current_leader_epoch > LEADER_EPOCH:
        return epoch_refusal(asked.current_leader_epoch)
    if asked.last_fetched_epoch > LEADER_EPOCH:
        # An epoch that never was: Kafka cannot tell where it ended.
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE


def _part(asked: FetchPartition, topic: Topic | ErrorCode, error: ErrorCode) -> FetchPart:
    stream_id = NO_STREAM
    if not isinstance(topic, ErrorCode) and 0 <= asked.partition < topic.partitions:
        stream_id = topic.stream(asked.partition)
    return FetchPart(
        index=asked.partition,
        stream_id=stream_id,
        offset=asked.fetch_offset,
        max_bytes=asked.partition_max_bytes,
        last_fetched_epoch=asked.last_fetched_epoch,
        readable=not error,
        error=error,
    )


class _LongPoll:
    """Rounds of reading, with waits for growth in between."""

    __slots__ = ("_limit_bytes", "_log", "_parts", "waited_s")

    def __init__(self, log: Log, parts: Sequence[FetchPart], limit_bytes: int) -> None:
        self._log = log
        self._parts = parts
        self._limit_bytes = limit_bytes
        self.waited_s = 0.0
        """How much of the time was spent waiting."""

    async def run(self, min_bytes: int, max_wait_ms: int) -> int:
        """Read until there is enough or the time is over; returns the bytes of the records."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_ms / 1000
        found_bytes = await self._round()
        while loop.time() < deadline and not self._is_enough(found_bytes, min_bytes):
            for part in self._parts:
                part.forget()
            grown = await self._grown(deadline)
            if not grown and found_bytes == 0:
                # Nothing came: what the store said in the last round is the answer.
                return 0
            found_bytes = await self._round()
            if grown and not self._is_enough(found_bytes, min_bytes):
                await self._pause(deadline - loop.time())
        return found_bytes

    async def _round(self) -> int:
        return await read_round(self._log, self._parts, self._limit_bytes)

    def _is_enough(self, found_bytes: int, min_bytes: int) -> bool:
        if found_bytes >= min_bytes or not self._parts:
            return True
        return any(part.is_settled for part in self._parts)

    async def _grown(self, deadline: float) -> bool:
        """Wait until a partition grows beyond what the last round saw, or the deadline."""
        started = perf_counter()
        wake = asyncio.Event()
        ends = [
            (part.stream_id, part.bounds.end) for part in self._parts if part.bounds is not None
        ]
        watch = self._log.wait_for_growth(ends, wake)
        try:
            async with asyncio.timeout_at(deadline):
                await wake.wait()
        except TimeoutError:
            return False
        finally:
            watch.cancel()
            self.waited_s += perf_counter() - started
        return True

    async def _pause(self, left_s: float) -> None:
        started = perf_counter()
        await asyncio.sleep(max(0.0, min(RECHECK_PAUSE_S, left_s)))
        self.waited_s += perf_counter() - started
