"""An administrator who deletes groups whenever that is possible, and sometimes when it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.group_observer import UNAVAILABLE, GroupObserver
from tests.faults.simulation.wire import Broken, Wire

from towpath.groups.state import GroupState
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.delete_groups import DeleteGroupsRequest

PAUSE_S = 1.5


class GroupAdmin:
    """One client that deletes groups."""

    def __init__(
        self, wire: Wire, observer: GroupObserver, chance: Chance, group_ids: Sequence[str]
    ) -> None:
        self._wire = wire
        self._observer = observer
        self._chance = chance
        self._group_ids = group_ids

    async def run(self) -> None:
        """Try again and again."""
        while True:
            await asyncio.sleep(self._chance.random() * 2 * PAUSE_S)
            try:
                await self._delete(self._chance.pick(*self._group_ids))
            except Broken:
                continue

    async def _delete(self, group_id: str) -> None:
        await self._wire.connect()
        assert self._wire.node is not None
        asked = self._observer.asked(group_id, "", None, -1, self._wire.node)
        answer = await self._wire.ask(DeleteGroupsRequest(groups_names=[group_id]), 2)
        (result,) = answer.results
        error = self._observer.answered(
            "DeleteGroups",
            asked,
            result.error_code,
            ErrorCode.NON_EMPTY_GROUP,
            ErrorCode.GROUP_ID_NOT_FOUND,
        )
        if error not in UNAVAILABLE:
            self._observer.expect_state(
                "DeleteGroups", asked, lambda state: _fits(state, error), error.name
            )


def _fits(state: GroupState | None, error: ErrorCode) -> bool:
    """Whether a group that is like this explains the answer."""
    if error is ErrorCode.NON_EMPTY_GROUP:
        return state is not None and not state.is_empty
    return state is None
