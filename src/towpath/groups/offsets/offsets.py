"""Committed offsets as the Kafka handlers see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from towpath.errors import GroupUnavailable
from towpath.groups.interface import Groups
from towpath.groups.offsets.commit import OffsetCommit
from towpath.groups.offsets.reader import OffsetReader, TopicOffsets
from towpath.groups.offsets.remover import remove_offsets
from towpath.groups.offsets.writer import OffsetWriter
from towpath.groups.registration import Registration
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.store import MetadataError, MetadataStore
from towpath.topics.interface import Topics


class Offsets:
    """The offsets of every group. Methods that wait raise GroupUnavailable when the store fails."""

    def __init__(
        self, store: MetadataStore, groups: Groups, topics: Topics, registration: Registration
    ) -> None:
        self._store = store
        self._groups = groups
        self._writer = OffsetWriter(store, groups, registration)
        self._reader = OffsetReader(store, topics)

    def commit(self, commit: OffsetCommit) -> None:
        """Take a commit, which is settled later; see `OffsetWriter.submit`."""
        self._writer.submit(commit)

    async def fetch(
        self,
        group_id: str,
        member_id: str | None,
        epoch: int,
        wanted: Mapping[str, Sequence[int]] | None,
    ) -> tuple[ErrorCode, Mapping[str, TopicOffsets]]:
        """The offsets of some partitions, or (None) of all; those of a group that does not exist
        are none. With the offsets, why the group does not show them."""
        view = await self._groups.view(group_id)
        if view.state is None:
            return ErrorCode.NONE, {}
        refusal = view.state.check_fetch(member_id, epoch)
        if refusal:
            return refusal, {}
        try:
            if wanted is None:
                return ErrorCode.NONE, await self._reader.all(group_id)
            return ErrorCode.NONE, await self._reader.some(group_id, wanted)
        except MetadataError as error:
            raise GroupUnavailable(f"offsets of {group_id!r} cannot be read: {error}") from error

    async def remove(
        self, group_id: str, wanted: Mapping[str, Sequence[int]]
    ) -> tuple[ErrorCode, frozenset[str]]:
        """Remove offsets; see `remover.remove_offsets`."""
        try:
            return await remove_offsets(self._store, self._groups, group_id, wanted)
        except MetadataError as error:
            raise GroupUnavailable(f"offsets of {group_id!r} cannot be removed: {error}") from error

    async def close(self) -> None:
        """Write what waits, and accept no more."""
        await self._writer.close()
