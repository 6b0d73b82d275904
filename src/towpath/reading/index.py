"""The metadata store as it is at one moment: topics, bounds and index entries. Nothing is written,
and no broker has to run."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from towpath.log.bounds import Bounds
from towpath.log.object.entries import Entry, UnknownEntry, decode
from towpath.metadata.keys import streams, topics
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.keys.topics import TopicRecord
from towpath.metadata.sqlite.errors import UnsupportedDatabase
from towpath.metadata.sqlite.read_only import read_sqlite
from towpath.metadata.sqlite.schema import check_release
from towpath.metadata.sqlite.transaction import read_tails
from towpath.metadata.store import KeyValue, StoreUnavailable, prefix_end

if TYPE_CHECKING:
    from towpath.typed.ids import KnownColumns

T = TypeVar("T")


class IndexReader:
    """What one read transaction sees. Only valid inside it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def topic_names(self) -> list[str]:
        """Every topic, in order."""
        rows = self._connection.execute(
            "SELECT key FROM kv WHERE key >= ? AND key < ? ORDER BY key",
            (topics.TOPICS_PREFIX, prefix_end(topics.TOPICS_PREFIX)),
        )
        return [topics.topic_name(key) for (key,) in rows if topics.is_topic(key)]

    def topic(self, name: str) -> TopicRecord | None:
        """The topic, if it exists."""
        value = self._value(topics.topic(name))
        return None if value is None else TopicRecord.decode(value)

    def known_columns(self, topic_number: int) -> KnownColumns:
        """The typed columns that the topic's table ever got."""
        # Few topics have any, and these take time to load.
        from towpath.metadata.keys import value_columns
        from towpath.typed.ids import KnownColumns

        value = self._value(value_columns.value_columns(topic_number))
        return KnownColumns() if value is None else value_columns.decode(value)

    def bounds(self, stream_ids: Sequence[int]) -> list[Bounds]:
        """First readable offset and log end of each stream."""
        tails = read_tails(self._connection, stream_ids)
        return [
            Bounds(self._log_start(stream_id), tail.offset_end)
            for stream_id, tail in zip(stream_ids, tails, strict=True)
        ]

    def entries(self, stream_id: int, offset: int) -> Iterator[Entry]:
        """The entries that end above the offset, in order."""
        rows = self._connection.execute(
            "SELECT key, value, version FROM kv WHERE key > ? AND key < ? ORDER BY key",
            (streams.first_entry_above(stream_id, offset), streams.index_end(stream_id)),
        )
        for key, value, version in rows:
            yield decode(KeyValue(key, bytes(value), version))

    def _log_start(self, stream_id: int) -> int:
        value = self._value(streams.log_start(stream_id))
        return 0 if value is None else streams.decode_log_start(value)

    def _value(self, key: str) -> bytes | None:
        found = self._connection.execute("SELECT value FROM kv WHERE key = ?", (key,)).fetchone()
        return None if found is None else bytes(found[0])


def at_one_moment(path: Path, work: Callable[[IndexReader], T]) -> T:
    """What `work` reads of the store in this file. Raises StoreUnavailable."""

    def read(connection: sqlite3.Connection) -> T:
        check_release(connection, path)
        return work(IndexReader(connection))

    try:
        return read_sqlite(path, read)
    except UnsupportedDatabase as error:
        raise StoreUnavailable(str(error)) from error
    except (UnknownEntry, UnknownValueVersion, ValueError) as error:
        raise StoreUnavailable(f"cannot read {path}: {error}") from error
