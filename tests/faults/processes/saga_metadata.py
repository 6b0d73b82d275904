"""What the metadata store says of the saga, read from its file beside the running processes."""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from towpath.metadata.keys import compaction, streams, topics
from towpath.metadata.keys.compaction import TaskRecord
from towpath.metadata.keys.numbers import pad
from towpath.metadata.proto.index_pb2 import PARQUET, IndexEntry
from towpath.metadata.store import prefix_end

BUSY_TIMEOUT_S = 30.0


class SagaMetadata:
    """A reader of one SQLite store; holds nothing open between two looks."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def tasks(self) -> list[TaskRecord]:
        """Every unfinished task."""
        pattern = compaction.tasks_prefix(0).replace(pad(0), "*") + "*"
        rows = self._query("SELECT value FROM kv WHERE key GLOB ?", (pattern,))
        return [TaskRecord.decode(value) for (value,) in rows]

    def active_marks(self) -> list[str]:
        """The streams that are marked as being worked on."""
        prefix = compaction.ACTIVE_PREFIX
        return [key for key, _ in self._rows(prefix, prefix_end(prefix))]

    def is_settled(self, topic: str, ends: Mapping[int, int], merged: Container[int] = ()) -> bool:
        """Whether nothing is under way, and every partition's index names Parquet files only, up to
        its end in `ends`; and that of the partitions `merged` with a single entry."""
        if self.active_marks() or self.tasks():
            return False
        number = self.topic_number(topic)
        for partition, end in ends.items():
            kinds = self._entry_kinds(topics.stream_id(number, partition), end)
            if kinds != [PARQUET] and (partition in merged or set(kinds) != {PARQUET}):
                return False
        return True

    def topic_number(self, topic: str) -> int:
        """The number of a topic that exists."""
        ((_, value),) = self._rows(topics.topic(topic), topics.topic(topic) + "\0")
        return topics.TopicRecord.decode(value).number

    def locks_renewed_ms(self) -> int:
        """When the session that holds a stream's lock was last renewed, on the monotonic clock; 0
        if no stream is locked."""
        found = self._query(
            "SELECT max(seen_ms) FROM sessions JOIN kv ON session = session_id"
            " WHERE key >= ? AND key < ?",
            (compaction.LOCKS_PREFIX, prefix_end(compaction.LOCKS_PREFIX)),
        )
        return found[0][0] or 0

    def _entry_kinds(self, stream: int, end: int) -> list[int]:
        """What the stream's entries are; nothing if they do not reach its end."""
        rows = self._rows(streams.index_prefix(stream), streams.index_end(stream))
        if not rows or streams.parse_index_entry(rows[-1][0])[1] != end:
            return []
        return [IndexEntry.FromString(value).file_type for _, value in rows]

    def _rows(self, start: str, end: str) -> list[tuple[str, bytes]]:
        return self._query(
            "SELECT key, value FROM kv WHERE key >= ? AND key < ? ORDER BY key", (start, end)
        )

    def _query(self, sql: str, parameters: tuple[str, ...]) -> list[Any]:
        uri = f"{self.path.as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
            return connection.execute(sql, parameters).fetchall()
