"""OffsetCommit (key 8), versions 2-10; by topic id from v10.

- The generation is read as a member epoch in groups of the consumer protocol (v9+). Without one
  (-1, no member id) the commit comes from a consumer that assigns partitions to itself or from a
  tool: the group must have no members, and is made if there is none.
- Topics, partitions and ids that do not exist, and metadata that is too long, fail their partition
  alone; a refusal of the group fails all others. Of the same partition named twice the last counts.
- `retention_time_ms` (v2-4) lets the offsets expire then, whatever the group does.
- A commit by a member of the classic protocol counts as its heartbeat.

Commits of one connection are written in their order; the next one may come before the last one is
answered.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any
from uuid import UUID

from towpath.groups.offsets.commit import OffsetCommit
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.partitions import PartitionFinder
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from towpath.kafka.deferred import Deferred
from towpath.kafka.errors import ErrorCode
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys import offsets as offset_keys
from towpath.metadata.keys.offsets import CommittedOffset
from towpath.metadata.store import Put
from towpath.topics.interface import Topic

TOPIC_ID_SINCE_VERSION = 10
BROKERS_RETENTION = -1


@api(key=8, versions=(2, 10), request=OffsetCommitRequest, response=OffsetCommitResponse)
def handle_offset_commit(request: OffsetCommitRequest, context: RequestContext) -> Awaitable[Any]:
    """Commit the offsets and answer when they are stored."""
    work = CommitWork(request, context)
    if not work.find_cached():
        return work.run()
    work.submit()
    return work


class CommitWork(Deferred):
    """One request: its topics are found, its offsets handed over, and the answer comes later.

    Requests whose topics are in the cache need no task of their own; `run` is for the others.
    """

    __slots__ = ("_answers", "_context", "_finder", "_request", "_topics", "_waiting")

    def __init__(self, request: OffsetCommitRequest, context: RequestContext) -> None:
        super().__init__()
        self._request = request
        self._context = context
        self._finder = PartitionFinder(context)
        self._topics: list[Topic | ErrorCode] = []
        """As found, in the order of the request."""
        self._answers: dict[str | UUID, OffsetCommitResponseTopic] = {}
        """By the topic's name or id. Kafka tells first what it does not know."""
        self._waiting: list[OffsetCommitResponsePartition] = []
        """The answers that depend on the group."""

    def find_cached(self) -> bool:
        """Look the topics up in the cache; False if one has to be looked for elsewhere."""
        for asked in self._request.topics:
            numbers = [partition.partition_index for partition in asked.partitions]
            topic = self._finder.cached(self._key(asked), numbers)
            if topic is None:
                self._topics.clear()
                return False
            self._topics.append(topic)
        return True

    async def run(self) -> OffsetCommitResponse:
        """Find the topics wherever they are, then submit and wait."""
        for asked in self._request.topics:
            numbers = [partition.partition_index for partition in asked.partitions]
            topic = await self._finder.find(self._key(asked), numbers)
            if topic is ErrorCode.KAFKA_STORAGE_ERROR:
                # Nobody knows now what exists. The clients of this API retry this code.
                topic = ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._topics.append(topic)
        self.submit()
        response: OffsetCommitResponse = await self
        return response

    def submit(self) -> None:
        """Hand the offsets over, and let the connection's next request start."""
        for asked, topic in zip(self._request.topics, self._topics, strict=True):
            self._refuse_unknown(asked, topic)
        puts: dict[str, Put] = {}
        knows_any = False
        for asked, topic in zip(self._request.topics, self._topics, strict=True):
            if not isinstance(topic, ErrorCode):
                knows_any |= self._accept(asked, topic, puts)
        if not knows_any:
            self._answer(ErrorCode.NONE)
        elif not keys.fits(self._request.group_id):
            self._answer(ErrorCode.INVALID_GROUP_ID)
        else:
            self._context.services.offsets.commit(self._commit(list(puts.values())))
        self._context.release()

    def _key(self, topic: OffsetCommitRequestTopic) -> str | UUID:
        by_id = self._context.api_version >= TOPIC_ID_SINCE_VERSION
        return topic.topic_id if by_id else topic.name

    def _refuse_unknown(self, asked: OffsetCommitRequestTopic, topic: Topic | ErrorCode) -> None:
        """Answer the partitions that do not exist."""
        for partition in asked.partitions:
            if isinstance(topic, ErrorCode):
                self._add(asked, partition, topic)
            elif not 0 <= partition.partition_index < topic.partitions:
                self._add(asked, partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _accept(self, asked: OffsetCommitRequestTopic, topic: Topic, puts: dict[str, Put]) -> bool:
        """Make the offsets of the partitions that exist; whether there are any."""
        knows_any = False
        services, request = self._context.services, self._request
        now_ms = services.runtime.clock.now_ms()
        retention_ms = request.retention_time_ms
        prefix = keys.topic_offsets_prefix(request.group_id, topic.name)
        for partition in asked.partitions:
            if not 0 <= partition.partition_index < topic.partitions:
                continue
            knows_any = True
            metadata = partition.committed_metadata or ""
            if len(metadata) > services.groups.settings.offset_metadata_max_bytes:
                self._add(asked, partition, ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            committed = CommittedOffset(
                partition.committed_offset,
                metadata,
                now_ms,
                topic.topic_id,
                request.generation_id_or_member_epoch,
                partition.committed_leader_epoch,
                None if retention_ms == BROKERS_RETENTION else now_ms + retention_ms,
            )
            key = offset_keys.key_under(prefix, partition.partition_index)
            puts[key] = Put(key, committed.encode())
            self._waiting.append(self._add(asked, partition, ErrorCode.NONE))
        return knows_any

    def _commit(self, puts: list[Put]) -> OffsetCommit:
        request = self._request
        return OffsetCommit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            self._context.api_version,
            puts,
            self._answer,
        )

    def _add(
        self,
        asked: OffsetCommitRequestTopic,
        partition: OffsetCommitRequestPartition,
        code: ErrorCode,
    ) -> OffsetCommitResponsePartition:
        answer = OffsetCommitResponsePartition(
            partition_index=partition.partition_index, error_code=code
        )
        key = self._key(asked)
        topic = self._answers.get(key)
        if topic is None:
            topic = OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id)
            self._answers[key] = topic
        topic.partitions.append(answer)
        return answer

    def _answer(self, outcome: ErrorCode) -> None:
        """The group's outcome is here: tell it for all partitions that depend on it."""
        if outcome:
            for partition in self._waiting:
                partition.error_code = outcome
        else:
            self._context.services.metrics.group_committed_offsets.inc(len(self._waiting))
        topics = list(self._answers.values())
        codes = [partition.error_code for topic in topics for partition in topic.partitions]
        if any(codes):
            count_errors(self._context, "OffsetCommit", codes)
        self.finish(OffsetCommitResponse(topics=topics))
