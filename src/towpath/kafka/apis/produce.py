"""Produce (key 0), versions 3-13; advertised from 0 so that old clients keep compressing.

Each partition's batch is checked and appended by itself: a bad one does not stop the others. A
batch is acknowledged when it is durable and committed, for acks=1 as for acks=-1. What is not
committed within the request's time-out is answered REQUEST_TIMED_OUT and goes on in the
background. acks=0 has no answer; its errors close the connection. Transactional requests and
batches are INVALID_TXN_STATE.

Batches are enqueued in the order of the request, and the connection's next request may start as
soon as the last one is. The memory of a batch belongs to the log from `append` on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from itertools import chain
from time import perf_counter
from typing import Any
from uuid import UUID

from towpath.errors import BatchError, TowpathError
from towpath.kafka.apis.concurrently import for_each
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.partitions import PartitionFinder
from towpath.kafka.apis.produce_answer import Part, answer
from towpath.kafka.apis.registry import CloseConnection, RequestContext, api
from towpath.kafka.codec.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
)
from towpath.kafka.deferred import Deferred
from towpath.kafka.errors import ErrorCode
from towpath.kafka.refused_batches import SENT_AGAIN
from towpath.objects.store import Buffer
from towpath.records.validate import ProduceRules, is_large, validate_produce
from towpath.topics.interface import Topic, TopicSettings

NO_ANSWER = 0
VALID_ACKS = (-1, 0, 1)
TOPIC_ID_SINCE_VERSION = 13


@api(
    key=0,
    versions=(3, 13),
    request=ProduceRequest,
    response=ProduceResponse,
    advertised_min_version=0,
)
def handle_produce(request: ProduceRequest, context: RequestContext) -> Awaitable[Any]:
    """Append the batches and answer when they are committed."""
    work = Produce(request, context)
    if not work.find_cached():
        return work.run()
    work.check()
    if work.large:
        return work.run()
    room = work.enqueue()
    if room is not None:
        return work.run(room)
    if not work.is_finished:
        context.services.deadlines.add(work, work.timeout_s)
    return work


class Produce(Deferred):
    """One request: its partitions are found and checked, then enqueued, then waited for.

    Most requests do the first two steps at once and need no task for the third; `run` takes the
    steps of those that have to wait for the metadata, for a thread or for room.
    """

    __slots__ = (
        "_context", "_finder", "_keys", "_left", "_log", "_next", "_parts", "_refusal",
        "_request", "_started_s", "_to_enqueue", "_topics", "large", "timeout_s",
    )  # fmt: skip

    def __init__(self, request: ProduceRequest, context: RequestContext) -> None:
        super().__init__()
        self._started_s = perf_counter()
        self._request = request
        self._context = context
        self._log = context.services.log
        self._finder = PartitionFinder(context)
        self._refusal = _refusal(request)
        self._keys: list[str | UUID] = []
        self._topics: list[Topic | ErrorCode] = []
        """The topics as named in the request and as found, in its order."""
        self._parts: list[list[Part]] = []
        """By topic, in the order of the request."""
        self._to_enqueue: Iterator[Part] = iter(())
        self._next: Part | None = None
        """The part that waits for room."""
        self._left = 1
        """Appends that are not settled yet, and one for the enqueuing itself."""
        self.timeout_s = max(0, request.timeout_ms) / 1000
        self.large: list[tuple[Part, Buffer, ProduceRules]] = []
        """What is to be validated in a thread."""

    # The steps that do not wait

    def find_cached(self) -> bool:
        """Look the topics up in the cache; False if one has to be looked for elsewhere."""
        by_id = self._context.api_version >= TOPIC_ID_SINCE_VERSION
        named = self._request.topic_data
        self._keys = [topic.topic_id if by_id else topic.name for topic in named]
        if self._refusal:
            self._topics = [self._refusal] * len(named)
            return True
        for asked, key in zip(named, self._keys, strict=True):
            topic = self._finder.cached(key, [data.index for data in asked.partition_data])
            if topic is None:
                return False
            self._topics.append(topic)
        return True

    def check(self) -> None:
        """Make the parts of the request, each with its batch or its error."""
        for asked, key, topic in zip(
            self._request.topic_data, self._keys, self._topics, strict=True
        ):
            self._parts.append([self._part(data, key, topic) for data in asked.partition_data])
        parts = self._parts
        self._to_enqueue = iter(parts[0] if len(parts) == 1 else chain.from_iterable(parts))

    def _part(self, data: PartitionProduceData, key: str | UUID, topic: Topic | ErrorCode) -> Part:
        part = Part(self, data.index, self._finder.refusal(topic, data.index))
        if part.error:
            self._context.services.refused.note(key, part.index, data.records, part.error)
        if isinstance(topic, ErrorCode):
            return part
        part.topic = topic
        if not part.error:
            records = b"" if data.records is None else data.records
            rules = _rules(topic.settings, self._context)
            if is_large(records):
                self.large.append((part, records, rules))
            else:
                _validate(part, records, rules)
        return part

    def enqueue(self) -> Awaitable[None] | None:
        """Append what is valid, in order. If there is no room for `_next` now: what to await."""
        for part in self._to_enqueue:
            batch = part.batch
            if batch is None:
                continue
            try:
                room = self._log.admit(len(batch.data))
            except TowpathError as failure:
                part.fail(failure)
                self._note_refused(part)
                continue
            if room is not None:
                self._next = part
                return room
            self._append(part)
        self._context.release()
        self.one_settled()
        return None

    def _append(self, part: Part) -> None:
        assert part.topic is not None
        assert part.batch is not None
        stream_id = part.topic.stream(part.index)
        refused = self._context.services.refused
        refused.tell(self._log, stream_id, part.topic, part.index, part.batch)
        self._left += 1
        part.pending = True
        self._log.append_for(stream_id, part.batch, part)

    def _note_refused(self, part: Part) -> None:
        """Tell the log of a batch that it did not get and will see again."""
        batch, topic = part.batch, part.topic
        if batch is None or topic is None or part.error not in SENT_AGAIN:
            return
        if batch.producer_id >= 0:
            self._log.note_refused(
                topic.stream(part.index),
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
            )

    # Waiting

    async def run(self, room: Awaitable[None] | None = None) -> ProduceResponse | None:
        """Everything that is left to do, waiting where it must."""
        deadline = asyncio.get_running_loop().time() + self.timeout_s
        if len(self._topics) < len(self._keys):
            self._topics = [
                await self._finder.find(key, [data.index for data in asked.partition_data])
                for asked, key in zip(self._request.topic_data, self._keys, strict=True)
            ]
            self.check()
        if self.large:
            offload = self._context.services.runtime.offload
            large, self.large = self.large, []
            await for_each(large, lambda one: offload(_validate, *one))
        room = room or self.enqueue()
        while room is not None:
            await self._enter(room, deadline)
            room = self.enqueue()
        try:
            async with asyncio.timeout_at(deadline):
                response: ProduceResponse | None = await self
        except TimeoutError:
            self.expire()
            response = await self
        return response

    async def _enter(self, room: Awaitable[None], deadline: float) -> None:
        """Append the next part once there is room for it."""
        part, self._next = self._next, None
        assert part is not None
        try:
            async with asyncio.timeout_at(deadline):
                await room
        except TimeoutError:
            part.error = ErrorCode.REQUEST_TIMED_OUT
        except TowpathError as failure:
            part.fail(failure)
        else:
            self._append(part)
            return
        self._note_refused(part)

    def one_settled(self) -> None:
        """One append has its outcome, or all are enqueued."""
        self._left -= 1
        if self._left == 0 and not self.is_finished:
            self._answer()

    def expire(self) -> None:
        """The time is over: what is not committed yet goes on in the background."""
        for parts in self._parts:
            for part in parts:
                if part.pending:
                    part.pending = False
                    part.error = ErrorCode.REQUEST_TIMED_OUT
        if not self.is_finished:
            self._answer()

    def _answer(self) -> None:
        context, request = self._context, self._request
        # The parts know this object: as long as it knows them, only the cycle collector frees both.
        topics, self._parts = self._parts, []
        acknowledged_bytes = 0
        failed: list[ErrorCode] = []
        for parts in topics:
            for part in parts:
                if part.error:
                    failed.append(part.error)
                elif part.batch is not None:
                    acknowledged_bytes += len(part.batch.data)
        meter = context.services.produce_meter
        meter.count(acknowledged_bytes)
        meter.observe(perf_counter() - self._started_s)
        if failed:
            count_errors(context, "Produce", failed)
        if request.acks != NO_ANSWER:
            self.finish(answer(request, topics, context))
        elif failed:
            self.finish(None, CloseConnection(f"produce with acks=0 failed: {failed[0].name}"))
        else:
            self.finish(None)
        # The deadlines may know this object for a while: the records must not stay with it.
        request.topic_data = []


def _refusal(request: ProduceRequest) -> ErrorCode:
    if request.acks not in VALID_ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS
    if request.transactional_id is not None:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.NONE


def _rules(settings: TopicSettings, context: RequestContext) -> ProduceRules:
    return ProduceRules(
        context.api_version,
        settings.max_message_bytes,
        settings.compact,
        settings.log_append_time,
        context.services.runtime.clock.now_ms(),
        settings.timestamp_before_max_ms,
        settings.timestamp_after_max_ms,
        context.services.settings.decompressed_max_bytes,
    )


def _validate(part: Part, records: Buffer, rules: ProduceRules) -> None:
    try:
        part.batch = validate_produce(records, rules)
    except BatchError as failure:
        part.fail(failure)
