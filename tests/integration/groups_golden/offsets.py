"""Requests about committed offsets, of any version, in the form scripts need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.integration.groups_golden.scene import Peer

from towpath.kafka.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from towpath.kafka.codec.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from towpath.kafka.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

COMMIT_FIRST, COMMIT_LAST = 2, 9
FETCH_FIRST, FETCH_LAST = 1, 9
SEVERAL_GROUPS_SINCE = 8

Partition = tuple[str, int]


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics


def commit(
    peer: Peer,
    group: str,
    offsets: Mapping[Partition, int],
    *,
    member_id: str = "",
    epoch: int = -1,
    instance: str | None = None,
    metadata: str | None = "",
    leader_epoch: int = -1,
    retention_ms: int = -1,
    version: int = COMMIT_LAST,
) -> Any:
    """OffsetCommit; as a simple consumer unless a member is named."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offsets[topic, number],
                    committed_leader_epoch=leader_epoch,
                    committed_metadata=metadata,
                )
                for number in numbers
            ],
        )
        for topic, numbers in _by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance,
        retention_time_ms=retention_ms,
        topics=topics,
    )
    return peer.ask(request, version)


def fetch(
    peer: Peer,
    group: str,
    partitions: Sequence[Partition] | None = None,
    *,
    member_id: str | None = None,
    epoch: int = -1,
    stable: bool = False,
    version: int = FETCH_LAST,
) -> Any:
    """OffsetFetch of one group; of all its partitions if none are named."""
    if version >= SEVERAL_GROUPS_SINCE:
        return fetch_groups(
            peer,
            {group: partitions},
            member_id=member_id,
            epoch=epoch,
            stable=stable,
            version=version,
        )
    topics = (
        None
        if partitions is None
        else [
            OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
            for topic, numbers in _by_topic(partitions).items()
        ]
    )
    request = OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)
    return peer.ask(request, version)


def fetch_groups(
    peer: Peer,
    groups: Mapping[str, Sequence[Partition] | None],
    *,
    member_id: str | None = None,
    epoch: int = -1,
    stable: bool = False,
    version: int = FETCH_LAST,
) -> Any:
    """OffsetFetch of several groups."""
    asked = []
    for group, partitions in groups.items():
        topics = (
            None
            if partitions is None
            else [
                OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in _by_topic(partitions).items()
            ]
        )
        asked.append(
            OffsetFetchRequestGroup(
                group_id=group, member_id=member_id, member_epoch=epoch, topics=topics
            )
        )
    return peer.ask(OffsetFetchRequest(groups=asked, require_stable=stable), version)


def delete(peer: Peer, group: str, partitions: Sequence[Partition]) -> Any:
    """OffsetDelete."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic,
            partitions=[OffsetDeleteRequestPartition(partition_index=n) for n in numbers],
        )
        for topic, numbers in _by_topic(partitions).items()
    ]
    return peer.ask(OffsetDeleteRequest(group_id=group, topics=topics))
