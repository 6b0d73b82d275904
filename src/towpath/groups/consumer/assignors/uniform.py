"""The assignor `uniform`, the default: as equally many partitions for each member as can be.

Balance goes before stickiness, and a member otherwise keeps what it has.
"""

from __future__ import annotations

from towpath.groups.consumer.assignors.spec import GroupSpec
from towpath.groups.consumer.assignors.uniform_mixed import assign_mixed
from towpath.groups.consumer.assignors.uniform_same import assign_same
from towpath.groups.consumer.partitions import Partitions


def assign_uniformly(group: GroupSpec) -> dict[str, Partitions]:
    """Every member's share."""
    if not any(member.topic_ids for member in group.members.values()):
        return {}
    return assign_same(group) if group.is_homogeneous else assign_mixed(group)
