"""Tables of deleted topics: kept, or dropped with their files, by policy.

A deleted topic leaves a grave for a while. Dropping is repeated as long as it is there, so that a
compactor that was slow cannot leave a table behind.
"""

from __future__ import annotations

import structlog

from towpath.gc.paging import scan_pages
from towpath.gc.summary import Summary
from towpath.lakehouse.settings import PipelineSettings
from towpath.lakehouse.tables import ForeignTable, Tables, TopicRef
from towpath.metadata.keys import compaction, topics
from towpath.metadata.keys.compaction import FileGc
from towpath.metadata.store import MetadataStore, prefix_end
from towpath.runtime import Runtime

logger = structlog.get_logger(__name__)


class DeletedTables:
    """Drops the tables of deleted topics."""

    def __init__(
        self, store: MetadataStore, tables: Tables, runtime: Runtime, settings: PipelineSettings
    ) -> None:
        self._store = store
        self._tables = tables
        self._clock = runtime.clock
        self._settings = settings

    async def run_once(self) -> Summary:
        """One pass over the graves."""
        examined = removed = 0
        prefix = topics.DELETED_PREFIX
        async for page in scan_pages(self._store, prefix, prefix_end(prefix)):
            for row in page:
                examined += 1
                number = topics.parse_deleted(row.key)
                grave = topics.DeletedTopic.decode(row.value)
                removed += await self._drop(TopicRef(grave.name, number, str(grave.topic_id)))
        return Summary(examined, removed)

    async def _drop(self, topic: TopicRef) -> bool:
        if await self._lives(topic):
            return False  # The grave is dug before the topic's record is deleted.
        try:
            files = await self._tables.drop(topic)
        except ForeignTable:
            return False
        if files:
            logger.info("dropped a deleted topic's table", topic=topic.name, files=len(files))
        delete_after_ms = self._clock.now_ms() + self._settings.file_gc_grace_ms
        for path in files:
            order = FileGc(
                path=path,
                topic=topic.name,
                stream_id=topics.stream_id(topic.number, 0),
                first_offset=0,
                sequence_number=0,
                delete_after_ms=delete_after_ms,
            )
            await self._store.put(compaction.file_gc(topic.number, path), order.encode())
        return bool(files)

    async def _lives(self, topic: TopicRef) -> bool:
        found = await self._store.get(topics.topic(topic.name))
        return found is not None and topics.TopicRecord.decode(found.value).number == topic.number
