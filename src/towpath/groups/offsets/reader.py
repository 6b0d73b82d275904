"""Committed offsets as the store has them at the moment of the question.

Offsets of a topic that was deleted are as good as gone, also while they still lie in the store and
when another topic has got the name since: the topic's id tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from towpath.metadata.keys import groups as keys
from towpath.metadata.keys import offsets as offset_keys
from towpath.metadata.keys.offsets import CommittedOffset
from towpath.metadata.store import KeyValue, MetadataStore, prefix_end
from towpath.topics.interface import Topics

PAGE_KEYS = 1_000

TopicOffsets = Mapping[int, CommittedOffset]
"""By partition, ascending."""


class OffsetReader:
    """Reads offsets, of groups that the caller knows to exist. Raises MetadataError, and
    UnknownValueVersion for a damaged value."""

    def __init__(self, store: MetadataStore, topics: Topics) -> None:
        self._store = store
        self._topics = topics

    async def all(self, group_id: str) -> dict[str, TopicOffsets]:
        """Every offset of the group, by topic."""
        prefix = keys.offsets_prefix(group_id)
        found: dict[str, dict[int, CommittedOffset]] = {}
        async for row in rows(self._store, prefix, prefix_end(prefix)):
            if not offset_keys.is_mark(row.key):
                topic, _, number = row.key[len(prefix) :].rpartition("/")
                found.setdefault(topic, {})[int(number)] = CommittedOffset.decode(row.value)
        return await self._of_live_topics(found)

    async def some(
        self, group_id: str, wanted: Mapping[str, Sequence[int]]
    ) -> dict[str, TopicOffsets]:
        """The offsets of some partitions, as far as there are any; perhaps of others, too."""
        found: dict[str, dict[int, CommittedOffset]] = {}
        for topic, partitions in wanted.items():
            numbers = [number for number in partitions if number >= 0]
            if numbers:
                found[topic] = await self._topic(group_id, topic, min(numbers), max(numbers))
        return await self._of_live_topics(found)

    async def _topic(
        self, group_id: str, topic: str, first: int, last: int
    ) -> dict[int, CommittedOffset]:
        prefix = keys.topic_offsets_prefix(group_id, topic)
        start = offset_keys.key_under(prefix, first)
        if first == last:
            row = await self._store.get(start)
            return {} if row is None else {first: CommittedOffset.decode(row.value)}
        end = offset_keys.key_under(prefix, last) + "\0"
        return {
            int(row.key[len(prefix) :]): CommittedOffset.decode(row.value)
            async for row in rows(self._store, start, end)
        }

    async def _of_live_topics(
        self, found: Mapping[str, Mapping[int, CommittedOffset]]
    ) -> dict[str, TopicOffsets]:
        """What is found without the offsets of topics that are gone. The catalog is refreshed
        before anything is left out."""
        if not all(self._is_live(topic, one) for topic in found for one in found[topic].values()):
            await self._topics.refresh()
        live: dict[str, TopicOffsets] = {}
        for topic, offsets in found.items():
            kept = {number: one for number, one in offsets.items() if self._is_live(topic, one)}
            if kept:
                live[topic] = kept
        return live

    def _is_live(self, topic: str, offset: CommittedOffset) -> bool:
        found = self._topics.get(topic)
        return found is not None and found.topic_id == offset.topic_id


async def rows(store: MetadataStore, start: str, end: str) -> AsyncIterator[KeyValue]:
    """The keys of `[start, end)` in order, a page at a time."""
    while page := await store.scan(start, end, limit=PAGE_KEYS):
        for row in page:
            yield row
        if len(page) < PAGE_KEYS:
            return
        start = page[-1].key + "\0"
        await asyncio.sleep(0)  # Reads of an embedded store do not let others run.
