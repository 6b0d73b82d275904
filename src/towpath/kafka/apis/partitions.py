"""Finds the topics and partitions that a request names, and checks the leader epochs it carries.

Lookups are answered from the catalog's cache. Before a request is told that something does not
exist, the catalog is refreshed, at most once per request.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from towpath.errors import TowpathError
from towpath.kafka.apis.registry import RequestContext
from towpath.kafka.errors import ErrorCode, error_code_of
from towpath.metadata.store import MetadataError
from towpath.topics.interface import Topic, Topics

LEADER_EPOCH = 0
"""The leader epoch of every partition of the object class."""
NO_EPOCH = -1


class PartitionFinder:
    """Resolves the partitions of one request."""

    __slots__ = ("_context", "_refreshed", "_topics")

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._topics: Topics = context.services.topics
        self._refreshed = False

    def cached(self, key: str | UUID, partitions: Iterable[int]) -> Topic | None:
        """The topic of this name or id if the cache knows it and all of the `partitions`."""
        topic = self._get(key)
        if topic is None:
            return None
        count = topic.partitions
        for partition in partitions:
            if partition >= count:
                return None
        return topic

    async def find(self, key: str | UUID, partitions: Iterable[int]) -> Topic | ErrorCode:
        """The topic of this name or id, or the error to answer for each of its partitions.

        The catalog is refreshed if it does not know the topic or one of the `partitions`.
        """
        topic = self.cached(key, partitions)
        if topic is None and not self._refreshed:
            try:
                await self._topics.refresh()
            except MetadataError:
                return ErrorCode.KAFKA_STORAGE_ERROR  # Retriable: nobody knows what exists now.
            except TowpathError as failure:
                return error_code_of(failure)
            self._refreshed = True
        topic = topic or self._get(key)
        if topic is not None:
            return topic
        if isinstance(key, str):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.UNKNOWN_TOPIC_ID

    def refusal(self, topic: Topic | ErrorCode, partition: int, rack: str = "") -> ErrorCode:
        """Why the partition of a found topic is not served here, or NONE.

        With `routing_enforce_owner` it is served only by the broker that the client is shown as its
        leader, and by the one it is sent to if it reads from a rack.
        """
        if isinstance(topic, ErrorCode):
            return topic
        if not 0 <= partition < topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._context.services.settings.routing_enforce_owner:
            view, stream_id = self._context.view(), topic.stream(partition)
            serving = (view.leader(stream_id), view.nearest(stream_id, rack))
            if self._context.services.cluster.broker_id not in serving:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def _get(self, key: str | UUID) -> Topic | None:
        if isinstance(key, str):
            return self._topics.get(key)
        return self._topics.get_by_id(key)


def epoch_refusal(current_leader_epoch: int) -> ErrorCode:
    """The answer to a client whose metadata names this leader epoch; -1 means it named none."""
    if current_leader_epoch in (NO_EPOCH, LEADER_EPOCH):
        return ErrorCode.NONE
    if current_leader_epoch < LEADER_EPOCH:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH
