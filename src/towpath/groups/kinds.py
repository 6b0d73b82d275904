"""Every kind of group, by the name under which its root is stored."""

from __future__ import annotations

from collections.abc import Mapping

from towpath.groups.classic.state import ClassicGroup
from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.state import GroupState

_ALL: tuple[type[GroupState], ...] = (ClassicGroup, ConsumerGroup)

KINDS: Mapping[str, type[GroupState]] = {kind.KIND: kind for kind in _ALL}
