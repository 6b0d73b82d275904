"""What the stores really hold, followed write by write: the truth that clients are judged by.

An index entry is decoded when it is committed, so the ledger knows every record that was ever
visible, also those that retention has removed since.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.faults.simulation.journal import Journal

from towpath.log.object import entries
from towpath.metadata.keys import streams, topics
from towpath.metadata.keys.compaction import TaskRecord
from towpath.metadata.store import KeyValue
from towpath.records.batch import parse_header
from towpath.records.walk import Record, iterate

TOPIC_IN_PATH = re.compile(r"/topic=([^/]+)/.*\.parquet$")
TASKS = "/compaction/tasks/"
"""What the keys of compaction tasks have in common."""


class Content(NamedTuple):
    """What readers must see of a record, wherever it lies."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def content_of(record: Record) -> Content:
    """The content of a record of a batch."""
    return Content(record.timestamp_ms, record.key, record.value, record.headers)


def describe_task(task: TaskRecord) -> str:
    """A compaction task in one line."""
    where = f"{task.topic}/{task.partition} [{task.start}, {task.end})"
    return f"{task.task_id[:8]} {task.kind} {where} {task.state.value}"


@dataclass(frozen=True, slots=True)
class TrueRecord:
    """One committed record."""

    content: Content
    producer_id: int

    @property
    def value(self) -> bytes:
        """Its value; the simulation's records all have one."""
        return self.content.value or b""


@dataclass(slots=True)
class TrueStream:
    """One stream: every record ever committed, and where reading starts."""

    records: list[TrueRecord] = field(default_factory=list)
    log_start: int = 0


@dataclass(slots=True)
class TrueTopic:
    """One topic; names are never used twice in a run."""

    name: str
    topic_id: uuid.UUID
    number: int
    partitions: int
    deleted: bool = False


class Ledger:
    """Follows the metadata; `content` gives an object's bytes, None if it does not exist."""

    def __init__(self, journal: Journal, content: Callable[[str], bytes | None]) -> None:
        self._journal = journal
        self._content = content
        self.streams: dict[int, TrueStream] = {}
        self.topics: dict[str, TrueTopic] = {}
        self._paths_of: dict[str, tuple[str, ...]] = {}
        """The objects that each index entry names; none for a tombstone."""
        self._keys_of: dict[str, set[str]] = {}
        self._spans: dict[int, dict[str, tuple[int, int]]] = {}
        """Start and end of each stream's entries."""
        self.may_start_at: Callable[[int, int], bool] = lambda stream_id, offset: True
        """Whether anything justifies this log start of this stream."""
        self.on_parquet_entry: Callable[[entries.Entry], None] = lambda entry: None
        """Called when an index entry of a topic that exists is swapped for Parquet files."""
        self.naming: Callable[[str], str | None] = lambda path: None
        """What else names an object, beside the index."""
        self.on_write: Callable[[Sequence[tuple[str, bytes]], Sequence[str]], None] | None = None
        """Called with the puts and deletes of each revision."""

    def stream(self, stream_id: int) -> TrueStream:
        """A stream, empty if nothing was written to it."""
        return self.streams.setdefault(stream_id, TrueStream())

    def referenced_paths(self) -> set[str]:
        """The objects that index entries name."""
        return set(self._keys_of)

    # What the metadata store reports

    def wrote(
        self, puts: Sequence[tuple[str, bytes]], deletes: Sequence[str], revision: int
    ) -> None:
        """A revision was written."""
        changed: set[int] = set()
        for key, value in puts:
            if streams.is_index_entry(key):
                self._entry_put(KeyValue(key, value, revision))
                changed.add(streams.parse_stream_id(key))
            elif key.endswith("/log-start"):
                self._log_start_put(streams.parse_stream_id(key), streams.decode_log_start(value))
            elif TASKS in key:
                self._journal.note(f"task {describe_task(TaskRecord.decode(value))}")
            elif topics.is_topic(key):
                self._topic_put(topics.topic_name(key), topics.TopicRecord.decode(value))
        for key in deletes:
            if streams.is_index_entry(key):
                self._unname(key)
                self._paths_of.pop(key, None)
                stream_id = streams.parse_stream_id(key)
                self._spans[stream_id].pop(key, None)
                changed.add(stream_id)
            elif topics.is_topic(key) and topics.topic_name(key) in self.topics:
                self.topics[topics.topic_name(key)].deleted = True
        for stream_id in changed:
            self._check_index(stream_id)
        if self.on_write is not None:
            self.on_write(puts, deletes)

    def _entry_put(self, row: KeyValue) -> None:
        entry = entries.decode(row)
        is_new = row.key not in self._paths_of
        self._unname(row.key)
        paths = {file.path for stretch in entry.stretches for file in stretch.files}
        if entry.rows:
            paths = {entry.path}
        self._paths_of[row.key] = tuple(sorted(paths))
        for path in paths:
            self._keys_of.setdefault(path, set()).add(row.key)
        self._spans.setdefault(entry.stream_id, {})[row.key] = (entry.start, entry.end)
        if is_new and entry.rows:
            self._append(entry)
        elif not self._is_deleted(entry.stream_id):
            if is_new:
                self._journal.fail(f"{row.key} was removed and is written again")
            if entry.is_parquet:
                self.on_parquet_entry(entry)

    def _check_index(self, stream_id: int) -> None:
        """The first entry whose end lies above an offset must contain it, from the log start on."""
        if self._is_deleted(stream_id):
            return
        stream = self.stream(stream_id)
        at = stream.log_start
        for start, end in sorted(self._spans[stream_id].values(), key=lambda span: span[1]):
            if end > at and start > at:
                self._journal.fail(f"the index of {stream_id:x} has nothing for [{at}, {start})")
                return
            at = max(at, end)
        if at < len(stream.records):
            self._journal.fail(f"the index of {stream_id:x} ends at {at}")

    def _append(self, entry: entries.Entry) -> None:
        records = self.stream(entry.stream_id).records
        where = f"stream {entry.stream_id:x} [{entry.start}, {entry.end})"
        content = self._content(entry.path)
        if content is None:
            self._journal.fail(f"{where} was committed without its object {entry.path}")
            return
        if self._is_deleted(entry.stream_id):
            # A broker that has not heard of the deletion appends to what was swept already.
            self._journal.note(f"commit {where} of a deleted topic")
            return
        if entry.start != len(records):
            self._journal.fail(f"{where} does not follow {len(records)}: offsets are not dense")
            return
        for row in entry.rows:
            batch = content[row.position : row.position + row.length]
            producer_id = parse_header(batch).producer_id
            records += [TrueRecord(content_of(one), producer_id) for one in iterate(batch)]
        if len(records) != entry.end:
            self._journal.fail(f"{where} holds {len(records) - entry.start} records")
        values = b" ".join(record.value[:16] for record in records[entry.start :])
        self._journal.note(f"commit {where} {values.decode()}")

    def is_deleted_number(self, number: int) -> bool:
        """Whether this topic was deleted."""
        return any(topic.number == number and topic.deleted for topic in self.topics.values())

    def is_of_deleted_topic(self, path: str) -> bool:
        """Whether this is a data file of a deleted topic, of which nothing is promised: it may go
        before the index entry that names it does."""
        found = TOPIC_IN_PATH.search(path)
        return found is not None and self.topics[found[1]].deleted

    def _is_deleted(self, stream_id: int) -> bool:
        return self.is_deleted_number(topics.split_stream_id(stream_id)[0])

    def _unname(self, key: str) -> None:
        for path in self._paths_of.get(key, ()):
            keys = self._keys_of[path]
            keys.discard(key)
            if not keys:
                del self._keys_of[path]

    def _log_start_put(self, stream_id: int, offset: int) -> None:
        stream = self.stream(stream_id)
        self._journal.note(f"log-start {stream_id:x} {offset}")
        if self._is_deleted(stream_id):
            return
        if offset < stream.log_start:
            self._journal.fail(f"the log start of {stream_id:x} went back to {offset}")
        elif offset > len(stream.records):
            self._journal.fail(f"the log start of {stream_id:x} is {offset}, beyond the end")
        elif not self.may_start_at(stream_id, offset):
            self._journal.fail(f"nothing justifies the log start {offset} of {stream_id:x}")
        stream.log_start = offset

    def _topic_put(self, name: str, record: topics.TopicRecord) -> None:
        known = self.topics.get(name)
        if known is None:
            self.topics[name] = TrueTopic(name, record.topic_id, record.number, record.partitions)
        elif known.topic_id != record.topic_id:
            self._journal.fail(f"topic {name} was replaced by another one")
        else:
            known.partitions = record.partitions

    # What the object store reports

    def deleting(self, path: str) -> None:
        """An object is about to be deleted."""
        self._journal.note(f"delete {path}")
        keys = set() if self.is_of_deleted_topic(path) else self._keys_of.get(path, set())
        named_by = min(keys) if keys else self.naming(path)
        if named_by is not None:
            self._journal.fail(f"{path} is deleted while {named_by} names it")
