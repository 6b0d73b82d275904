"""Deleting a group, as a step; its offsets go with it (see `groups/store.py`)."""

from __future__ import annotations

from towpath.groups.state import GroupState
from towpath.groups.step import Env, Outcome
from towpath.kafka.codec.error_codes import ErrorCode


def delete_group(state: GroupState | None, env: Env) -> Outcome[ErrorCode]:
    """Delete the group if it has no members."""
    if state is None:
        return Outcome(None, ErrorCode.GROUP_ID_NOT_FOUND)
    error = state.check_delete()
    return Outcome(state if error else None, error)
