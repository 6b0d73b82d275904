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
from collections.abc import Sequence
from time import perf_counter

from towpath.errors import BatchError, LogClosed, TowpathError
from towpath.kafka.apis.concurrently import Settling, for_each
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.partitions import PartitionFinder
from towpath.kafka.apis.produce_answer import Part, answer
from towpath.kafka.apis.registry import CloseConnection, RequestContext, api
from towpath.kafka.codec.messages.produce import ProduceRequest, ProduceResponse
from towpath.kafka.errors import ErrorCode
from towpath.log.interface import Log
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
async def handle_produce(
    request: ProduceRequest, context: RequestContext
) -> ProduceResponse | None:
    """Append the batches and answer when they are committed."""
    started = perf_counter()
    deadline = asyncio.get_running_loop().time() + max(0, request.timeout_ms) / 1000
    topics = await _check(request, context)
    parts = topics[0] if len(topics) == 1 else [part for topic in topics for part in topic]
    settling = Settling()
    await _enqueue(context.services.log, parts, settling, deadline)
    context.release()
    await settling.wait_until(deadline)
    metrics = context.services.metrics
    acknowledged_bytes = sum([_outcome(part) for part in parts])
    if acknowledged_bytes:
        metrics.produced_bytes.inc(acknowledged_bytes)
    failed = [part.error for part in parts if part.error]
    if failed:
        count_errors(context, "Produce", failed)
    metrics.produce_seconds.observe(perf_counter() - started)
    if request.acks == NO_ANSWER:
        if failed:
            raise CloseConnection(f"produce with acks=0 failed: {failed[0].name}")
        return None
    return answer(request, topics, context)


async def _check(request: ProduceRequest, context: RequestContext) -> list[list[Part]]:
    """The request's partitions, topic by topic, each with its validated batch or its error."""
    finder = PartitionFinder(context.services)
    refusal = _refusal(request)
    by_id = context.api_version >= TOPIC_ID_SINCE_VERSION
    topics: list[list[Part]] = []
    large: list[tuple[Part, Buffer, ProduceRules]] = []
    for named in request.topic_data:
        topic: Topic | ErrorCode = refusal
        if not refusal:
            key = named.topic_id if by_id else named.name
            indexes = [data.index for data in named.partition_data]
            topic = finder.cached(key, indexes) or await finder.find(key, indexes)
        parts: list[Part] = []
        topics.append(parts)
        for data in named.partition_data:
            part = Part(data.index, finder.refusal(topic, data.index))
            parts.append(part)
            if isinstance(topic, ErrorCode):
                continue
            part.topic = topic
            if part.error:
                continue
            records = b"" if data.records is None else data.records
            rules = _rules(topic.settings, context)
            if is_large(records):
                large.append((part, records, rules))
            else:
                _validate(part, records, rules)
    if large:
        offload = context.services.runtime.offload
        await for_each(large, lambda one: offload(_validate, *one))
    return topics


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


async def _enqueue(log: Log, parts: Sequence[Part], settling: Settling, deadline: float) -> None:
    """Append what is valid, in order, each as soon as the log has room for it."""
    for part in parts:
        if part.batch is None or part.topic is None:
            continue
        try:
            room = log.admit(len(part.batch.data))
            if room is not None:
                async with asyncio.timeout_at(deadline):
                    await room
            part.appended = log.append(part.topic.stream(part.index), part.batch)
        except TimeoutError:
            part.error = ErrorCode.REQUEST_TIMED_OUT
        except TowpathError as failure:
            part.fail(failure)
        else:
            settling.add(part.appended)


def _outcome(part: Part) -> int:
    """Take over what became of the append; returns the bytes that were acknowledged."""
    if part.appended is None or part.batch is None:
        return 0
    if not part.appended.done():
        part.error = ErrorCode.REQUEST_TIMED_OUT
        return 0
    if part.appended.cancelled():
        part.fail(LogClosed("the append was given up"))
        return 0
    failure = part.appended.exception()
    if failure is not None:
        part.fail(failure)
        return 0
    return len(part.batch.data)
