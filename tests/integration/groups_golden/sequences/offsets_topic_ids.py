"""OffsetCommit and OffsetFetch v10, which name topics by id. Kafka 4.1 serves them when told to
serve unstable versions."""

from __future__ import annotations

from uuid import UUID

from tests.integration.groups_golden.classic import Member, together
from tests.integration.groups_golden.consumer import Consumer
from tests.integration.groups_golden.offsets import commit, fetch
from tests.integration.groups_golden.registry import TOPIC_IDS, sequence
from tests.integration.groups_golden.scene import Peer, Scene

from towpath.kafka.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from towpath.kafka.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

VERSION = 10
UNKNOWN = UUID(int=5)
NONE = UUID(int=0)


def commit_by_id(
    peer: Peer,
    group: str,
    *partitions: tuple[UUID, int, int],
    member_id: str = "",
    epoch: int = -1,
) -> None:
    """OffsetCommit v10: topic id, partition and offset of each."""
    topics = [
        OffsetCommitRequestTopic(
            topic_id=topic_id,
            partitions=[
                OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
            ],
        )
        for topic_id, number, offset in partitions
    ]
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=topics,
    )
    peer.ask(request, VERSION)


def fetch_by_id(
    peer: Peer,
    group: str,
    *partitions: tuple[UUID, int],
    member_id: str | None = None,
    epoch: int = -1,
) -> None:
    """OffsetFetch v10 of some partitions, or of all."""
    topics = [
        OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[number])
        for topic_id, number in partitions
    ]
    asked = OffsetFetchRequestGroup(
        group_id=group, member_id=member_id, member_epoch=epoch, topics=topics or None
    )
    peer.ask(OffsetFetchRequest(groups=[asked]), VERSION)


@sequence(TOPIC_IDS)
def topic_ids_of_a_simple_consumer(s: Scene) -> None:
    """Known, unknown and missing ids, known and unknown partitions."""
    peer = s.peer("simple")
    alpha, beta = UUID(s.topic_ids["alpha"]), UUID(s.topic_ids["beta"])
    commit_by_id(peer, s.group, (alpha, 0, 5), (beta, 1, 6))
    commit_by_id(peer, s.group, (alpha, 7, 5), (UNKNOWN, 0, 5), (alpha, 1, 8))
    commit_by_id(peer, s.group, (NONE, 0, 5))
    commit_by_id(peer, s.group, (UNKNOWN, 0, 5))
    commit_by_id(peer, s.group)
    commit_by_id(peer, "", (alpha, 0, 5))
    fetch_by_id(peer, s.group, (alpha, 0), (alpha, 2), (alpha, 7), (beta, 1))
    fetch_by_id(peer, s.group, (UNKNOWN, 0), (alpha, 0))
    fetch_by_id(peer, s.group, (NONE, 0))
    fetch_by_id(peer, s.group)
    fetch_by_id(peer, "nobody", (alpha, 0))
    fetch_by_id(peer, "nobody")
    fetch(peer, s.group)
    commit(peer, s.group, {("beta", 0): 9})
    fetch_by_id(peer, s.group)


@sequence(TOPIC_IDS)
def topic_ids_of_members(s: Scene) -> None:
    """Members of both protocols, with right and wrong epochs."""
    alpha = UUID(s.topic_ids["alpha"])
    a = Consumer(s, "a", group=f"{s.group}-consumer")
    a.join(["alpha"])
    a.acknowledge()
    for member_id, epoch in (("a", 1), ("a", 0), ("a", 2), ("stranger", 1), ("", -1)):
        commit_by_id(a.peer, a.group, (alpha, 0, 5), member_id=member_id, epoch=epoch)
        fetch_by_id(a.peer, a.group, (alpha, 0), member_id=member_id, epoch=epoch)
    b = Member(s, "b", group=f"{s.group}-classic")
    together(b)
    for member_id, epoch in ((b.member_id, 1), (b.member_id, 0), (b.member_id, 2), ("", -1)):
        commit_by_id(b.peer, b.group, (alpha, 0, 5), member_id=member_id, epoch=epoch)
        fetch_by_id(b.peer, b.group, (alpha, 0), member_id=member_id, epoch=epoch)
    commit_by_id(b.peer, b.group, (alpha, 0, 5), member_id="stranger", epoch=1)
