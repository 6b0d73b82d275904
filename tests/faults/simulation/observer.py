"""Judges what clients see while they see it: every answer against the truth and against time.

A log end (or start) that anybody has seen is a floor for every request sent afterwards, by whatever
broker: that is what one total order of appends and reads means for a log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.faults.simulation.journal import Journal
from tests.faults.simulation.ledger import Content, Ledger

from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys.topics import split_stream_id, stream_id

LOG_END = -1
NO_OFFSET = -1
"""The answer for a time after all records."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What was known of a stream when a request was sent."""

    stream: int
    end: int
    start: int


@dataclass(slots=True)
class Known:
    """The greatest bounds of a stream that anybody was told."""

    end: int = 0
    start: int = 0


@dataclass(slots=True)
class Sent:
    """One produced batch and what is known of it."""

    values: tuple[bytes, ...]
    attempts: int = 0
    acked_at: int | None = None
    """The acknowledged base offset."""


@dataclass(slots=True)
class Observer:
    """All that the clients of a run know together."""

    journal: Journal
    ledger: Ledger
    known: dict[int, Known] = field(default_factory=dict)
    doomed: set[str] = field(default_factory=set)
    """Topics whose deletion was asked for: nothing is promised of them any more."""
    created: dict[str, int] = field(default_factory=dict)
    """Topics whose creation was acknowledged, with their partitions."""
    retained: set[str] = field(default_factory=set)
    """Topics with a retention that removes records."""
    cut: dict[int, set[int]] = field(default_factory=dict)
    """The offsets up to which deletion of records was asked, by stream."""
    sent: dict[str, list[Sent]] = field(default_factory=dict)
    """Batches by producer and partition, in the order of sending; see `producers.py`."""
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.ledger.may_start_at = self._may_start_at

    # Requests

    def stream(self, topic: str, partition: int) -> int:
        """The stream of a partition."""
        return stream_id(self.ledger.topics[topic].number, partition)

    def mark(self, topic: str, partition: int) -> Mark:
        """To be taken when a request is sent."""
        stream = self.stream(topic, partition)
        known = self.known.setdefault(stream, Known())
        return Mark(stream, known.end, known.start)

    def usable(self) -> list[str]:
        """Topics that were created and are not to be deleted."""
        return [name for name in self.created if name not in self.doomed]

    def is_doomed(self, stream: int) -> bool:
        """Whether the deletion of the stream's topic was asked for."""
        number, _ = split_stream_id(stream)
        return any(self.ledger.topics[name].number == number for name in self.doomed)

    # Answers

    def error(self, topic: str, code: int, what: str) -> None:
        """A request about a topic was answered with this error."""
        self.counts[f"{what} {ErrorCode(code).name}"] += 1
        unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
        if code in unknown and topic in self.created and topic not in self.doomed:
            self.journal.fail(f"{what}: topic {topic}, which was created, is unknown")
        if code == ErrorCode.UNKNOWN_SERVER_ERROR:
            self.journal.fail(f"{what} on {topic} was answered UNKNOWN_SERVER_ERROR")

    def acked(self, mark: Mark, batch: Sent, base_offset: int, who: str) -> None:
        """A batch, first sent at `mark`, was acknowledged at this offset."""
        batch.acked_at = base_offset
        end = base_offset + len(batch.values)
        where = f"{who} acknowledged at {mark.stream:x} [{base_offset}, {end})"
        self.journal.note(where)
        self.counts["acknowledged batches"] += 1
        if self.is_doomed(mark.stream):
            return
        stored = self.ledger.stream(mark.stream).records[base_offset:end]
        if [record.value for record in stored] != list(batch.values):
            self.journal.fail(f"{where} but the log holds {[r.value for r in stored]}")
        elif base_offset < mark.end:
            self.journal.fail(f"{where} though {mark.end} was the end before it was sent")
        self._raise_end(mark.stream, end)

    def saw_end(self, mark: Mark, end: int, who: str) -> None:
        """A request was answered with this log end."""
        if self.is_doomed(mark.stream):
            return
        if end < mark.end:
            self.journal.fail(f"{who} saw {mark.stream:x} end at {end}, after {mark.end}")
        elif end > len(self.ledger.stream(mark.stream).records):
            self.journal.fail(f"{who} saw {mark.stream:x} end at {end}, beyond what was written")
        self._raise_end(mark.stream, end)

    def saw_start(self, mark: Mark, start: int, who: str) -> None:
        """A request was answered with this log start."""
        if self.is_doomed(mark.stream):
            return
        if start < mark.start:
            self.journal.fail(f"{who} saw {mark.stream:x} start at {start}, after {mark.start}")
        elif start > self.ledger.stream(mark.stream).log_start:
            self.journal.fail(f"{who} saw {mark.stream:x} start at {start}, above the log start")
        self._raise_start(mark.stream, start)

    def saw_time(self, mark: Mark, time_ms: int, found: tuple[int, int], who: str) -> None:
        """The first offset at or after a time was answered, with its timestamp."""
        stream = self.ledger.stream(mark.stream)
        if self.is_doomed(mark.stream):
            return
        offset, timestamp_ms = found
        self.counts["time lookups"] += 1
        end = offset if offset != NO_OFFSET else mark.end
        times_ms = [record.content.timestamp_ms for record in stream.records]
        where = f"{who} was told {found} of {mark.stream:x} for {time_ms}"
        if any(found_ms >= time_ms for found_ms in times_ms[stream.log_start : end]):
            self.journal.fail(f"{where}: an earlier one has it")
        elif offset != NO_OFFSET and not times_ms[offset] == timestamp_ms >= time_ms:
            self.journal.fail(f"{where}: it has {times_ms[offset]}")

    def read(self, mark: Mark, records: Sequence[tuple[int, Content]], at: int, who: str) -> None:
        """A fetch from offset `at` was answered with these records and their offsets."""
        truth = self.ledger.stream(mark.stream).records
        if self.is_doomed(mark.stream):
            return
        if at < mark.start:
            self.journal.fail(f"{who} read {at} of {mark.stream:x}, below its start {mark.start}")
            return
        for number, (offset, content) in enumerate(records):
            if offset != at + number:
                self.journal.fail(
                    f"{who} read {offset} of {mark.stream:x} instead of {at + number}"
                )
            elif offset >= len(truth) or truth[offset].content != content:
                self.journal.fail(f"{who} read {content!r} at {offset} of {mark.stream:x}")
            if self.journal.failures:
                return
        self.counts["records read"] += len(records)
        if records:
            self._raise_end(mark.stream, records[-1][0] + 1)
        elif at < mark.end:
            self.journal.fail(f"{who} read nothing at {at} of {mark.stream:x}, before {mark.end}")

    def out_of_range(self, mark: Mark, offset: int, who: str) -> None:
        """A fetch was refused because of its offset."""
        stream = self.ledger.stream(mark.stream)
        if not self.is_doomed(mark.stream) and offset >= stream.log_start:
            self.journal.fail(f"{who} was refused {offset} of {mark.stream:x}, which is readable")

    def cut_at(self, mark: Mark, low_watermark: int, who: str) -> None:
        """Records were deleted up to this offset."""
        self.saw_start(mark, low_watermark, who)

    def cut_asked(self, stream: int, offset: int) -> None:
        """Deletion of records up to an offset is being asked for."""
        self.cut.setdefault(stream, set()).add(offset)

    def _may_start_at(self, stream: int, offset: int) -> bool:
        asked = self.cut.get(stream, set())
        if offset in asked or LOG_END in asked:
            return True
        number, _ = split_stream_id(stream)
        return any(self.ledger.topics[name].number == number for name in self.retained)

    def _raise_end(self, stream: int, end: int) -> None:
        known = self.known.setdefault(stream, Known())
        known.end = max(known.end, end)

    def _raise_start(self, stream: int, start: int) -> None:
        known = self.known.setdefault(stream, Known())
        known.start = max(known.start, start)
