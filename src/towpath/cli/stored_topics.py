"""Topics and where their logs end, from the metadata store itself: no broker has to run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from towpath.cli.errors import CliError
from towpath.cli.read_only_sqlite import read_sqlite
from towpath.metadata.keys import streams, topics
from towpath.metadata.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION
from towpath.metadata.sqlite.transaction import read_tails


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The first readable offset of a partition, and the next one to be written."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class StoredTopic:
    """A topic as the metadata store has it."""

    topic_id: str
    """Tells it apart from others that had or have the same name, here or in another cluster."""
    partitions: Mapping[int, LogBounds] = field(hash=False)


def read_topics(path: Path, names: Iterable[str]) -> dict[str, StoredTopic]:
    """Those of the topics that exist, by name. Raises CliError if the store cannot be read."""
    wanted = sorted(set(names))

    def work(connection: sqlite3.Connection) -> dict[str, StoredTopic]:
        _check_release(connection, path)
        found = ((name, _value(connection, topics.topic(name))) for name in wanted)
        return {name: _topic(connection, value) for name, value in found if value is not None}

    try:
        return read_sqlite(path, work)
    except ValueError as error:
        raise CliError(f"cannot read {path}: {error}") from error


def _topic(connection: sqlite3.Connection, value: bytes) -> StoredTopic:
    record = topics.TopicRecord.decode(value)
    stream_ids = [topics.stream_id(record.number, i) for i in range(record.partitions)]
    ends = [tail.offset_end for tail in read_tails(connection, stream_ids)]
    starts = [_log_start(connection, stream) for stream in stream_ids]
    bounds = [LogBounds(start, end) for start, end in zip(starts, ends, strict=True)]
    return StoredTopic(str(record.topic_id), dict(enumerate(bounds)))


def _log_start(connection: sqlite3.Connection, stream_id: int) -> int:
    value = _value(connection, streams.log_start(stream_id))
    return 0 if value is None else streams.decode_log_start(value)


def _value(connection: sqlite3.Connection, key: str) -> bytes | None:
    row = connection.execute("SELECT value FROM kv WHERE key = ?", (key,)).fetchone()
    return None if row is None else bytes(row[0])


def _check_release(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise CliError(f"{path} is not a metadata store")
    if version > SCHEMA_VERSION:
        raise CliError(f"{path} was written by a newer release (schema version {version})")
