"""The server-side assignors, found by the names that clients give."""

from __future__ import annotations

from towpath.groups.consumer.assignors.by_range import assign_ranges
from towpath.groups.consumer.assignors.spec import AssignmentError, Assignor, GroupSpec, MemberSpec
from towpath.groups.consumer.assignors.uniform import assign_uniformly

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""Every assignor there is; the setting `group.consumer.assignors` tells which are offered."""

__all__ = ["ASSIGNORS", "AssignmentError", "Assignor", "GroupSpec", "MemberSpec"]
