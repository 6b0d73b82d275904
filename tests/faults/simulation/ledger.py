"""What the stores really hold, followed write by write: the truth that clients are judged by.

An index entry is decoded when it is committed, so the ledger knows every record that was ever
visible, also those that retention has removed since.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.faults.simulation.journal import Journal

from towpath.log.object import entries
from towpath.metadata.keys import streams, topics
from towpath.metadata.store import KeyValue
from towpath.records.batch import parse_header
from towpath.records.walk import iterate


@dataclass(frozen=True, slots=True)
class TrueRecord:
    """One committed record."""

    value: bytes
    producer_id: int


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
        self._path_of: dict[str, str] = {}
        self._keys_of: dict[str, set[str]] = {}
        self.may_start_at: Callable[[int, int], bool] = lambda stream_id, offset: True
        """Whether anything justifies this log start of this stream."""

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
        for key, value in puts:
            if streams.is_index_entry(key):
                self._entry_put(KeyValue(key, value, revision))
            elif key.endswith("/log-start"):
                self._log_start_put(streams.parse_stream_id(key), streams.decode_log_start(value))
            elif topics.is_topic(key):
                self._topic_put(topics.topic_name(key), topics.TopicRecord.decode(value))
        for key in deletes:
            if streams.is_index_entry(key):
                self._unname(key)
            elif topics.is_topic(key) and topics.topic_name(key) in self.topics:
                self.topics[topics.topic_name(key)].deleted = True

    def _entry_put(self, row: KeyValue) -> None:
        entry = entries.decode(row)
        is_new = row.key not in self._path_of
        self._unname(row.key)
        if entry.rows:
            self._path_of[row.key] = entry.path
            self._keys_of.setdefault(entry.path, set()).add(row.key)
        if is_new and entry.rows:
            self._append(entry)

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
            found = [TrueRecord(bytes(one.value or b""), producer_id) for one in iterate(batch)]
            records += found
        if len(records) != entry.end:
            self._journal.fail(f"{where} holds {len(records) - entry.start} records")
        values = b" ".join(record.value[:16] for record in records[entry.start :])
        self._journal.note(f"commit {where} {values.decode()}")

    def _is_deleted(self, stream_id: int) -> bool:
        number, _ = topics.split_stream_id(stream_id)
        return any(topic.number == number and topic.deleted for topic in self.topics.values())

    def _unname(self, key: str) -> None:
        path = self._path_of.pop(key, None)
        if path is not None:
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
        keys = self._keys_of.get(path)
        if keys:
            self._journal.fail(f"{path} is deleted while {min(keys)} names it")
