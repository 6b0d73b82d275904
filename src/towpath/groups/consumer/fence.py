"""Taking members out of a group, be it that they leave or that their time is over."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from towpath.groups.consumer.subscriptions import metadata_hash, without_unused

if TYPE_CHECKING:
    from towpath.groups.consumer.state import ConsumerGroup
    from towpath.groups.step import Env


def fence(group: ConsumerGroup, member_ids: Collection[str], env: Env) -> ConsumerGroup:
    """The group without those of the members that it has, with a higher epoch; the same object if
    it has none of them. Who sends the next heartbeat makes the new target."""
    if not any(member_id in group.members for member_id in member_ids):
        return group
    rest = without_unused(group.without_members(member_ids))
    digest = metadata_hash(rest.subscribed_names, env.topics)
    return rest.changed(epoch=group.epoch + 1, metadata_hash=digest)
