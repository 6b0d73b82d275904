"""Makes the target assignment that belongs to the group's epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.groups.consumer.assignors import ASSIGNORS, AssignmentError, GroupSpec, MemberSpec
from towpath.groups.consumer.partitions import NO_PARTITIONS, Partitions
from towpath.groups.consumer.refusal import Refused
from towpath.groups.consumer.subscriptions import TopicIds, is_homogeneous
from towpath.kafka.codec.error_codes import ErrorCode

if TYPE_CHECKING:
    from towpath.groups.consumer.state import ConsumerGroup
    from towpath.groups.step import Env
    from towpath.topics.interface import Topics


def with_target(group: ConsumerGroup, env: Env) -> ConsumerGroup:
    """The group whose target is that of its epoch."""
    assign = ASSIGNORS[group.assignor(env.settings.consumer_assignors)]
    try:
        made = assign(_spec(group, env.topics))
    except AssignmentError as error:
        raise Refused(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Failed to compute a new target assignment for epoch {group.epoch}: {error}",
        ) from error
    return group.changed(
        assignment_epoch=group.epoch,
        targets={
            member_id: _same_or_new(group.target(member_id), made.get(member_id, NO_PARTITIONS))
            for member_id in group.members
        },
    )


def _same_or_new(old: Partitions, new: Partitions) -> Partitions:
    """The old object where nothing has changed, so that it is not stored again."""
    return old if old == new else new


def _spec(group: ConsumerGroup, topics: Topics) -> GroupSpec:
    topic_ids = TopicIds(group, topics)
    members = {
        member.member_id: MemberSpec(
            topic_ids=topic_ids.of(member),
            assigned=group.target(member.member_id),
            instance_id=member.instance_id,
        )
        for member in group.members.values()
    }
    found = (topics.get_by_id(each) for each in topic_ids.seen())
    return GroupSpec(
        members=members,
        partition_counts={topic.topic_id: topic.partitions for topic in found if topic is not None},
        is_homogeneous=is_homogeneous(group),
    )
