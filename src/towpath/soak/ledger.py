"""Compact books of a soak: counts and sums of what was acknowledged and of what was read.

A producer and a consumer that saw the same records at the same offsets with the same bytes have
the same count and sum, whatever the order; nobody keeps the records.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Self

from towpath.soak.record import SUM_MASK, DamagedRecord, fingerprint, parse

FAILED_MAX = 100_000
"""Sequences without acknowledgement that a producer remembers per partition."""
PROBLEMS_MAX = 20
"""Problems that a reader describes; it counts the others."""


@dataclass(slots=True)
class Written:
    """One producer's records of one partition."""

    next_sequence: int = 0
    acknowledged: int = 0
    sum: int = 0
    failed: list[int] = field(default_factory=list)
    """Sequences that were not acknowledged: they may or may not be there."""

    def note_acknowledged(self, producer: int, sequence: int, offset: int, checksum: int) -> None:
        """The broker has told this offset."""
        self.acknowledged += 1
        self.sum = (self.sum + fingerprint(producer, sequence, offset, checksum)) & SUM_MASK

    def note_failed(self, sequence: int) -> None:
        """The client has given the record up."""
        if len(self.failed) >= FAILED_MAX:
            raise OverflowError(f"more than {FAILED_MAX} records were not acknowledged")
        self.failed.append(sequence)

    def to_dict(self) -> dict[str, Any]:
        """As JSON sees it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(**values)


@dataclass(slots=True)
class Read:
    """What one pass over one partition saw of one producer."""

    count: int = 0
    sum: int = 0
    last_sequence: int = -1
    missing: int = 0
    """Sequences that were passed over."""
    doubtful: int = 0
    """Records that were never acknowledged; they are not in `count` and `sum`."""
    doubtful_sum: int = 0


class Reader:
    """Checks the records of one pass as they come: dense offsets, intact bytes, no repetition."""

    def __init__(self, failed: dict[tuple[int, int], set[int]] | None = None) -> None:
        """`failed` has the sequences without acknowledgement by producer and partition."""
        self._failed = failed or {}
        self._next_offset: dict[int, int] = {}
        self._read: dict[tuple[int, int], Read] = {}
        self.problems: list[str] = []
        self.problem_count = 0
        self.count = 0

    def next_offset(self, partition: int) -> int:
        """The offset that must come next."""
        return self._next_offset.get(partition, 0)

    def read(self, partition: int, offset: int, value: bytes | None) -> None:
        """Take the next record of a partition."""
        expected = self._next_offset.get(partition, 0)
        if offset != expected:
            self.complain(f"partition {partition}: offset {offset} follows {expected - 1}")
        self._next_offset[partition] = offset + 1
        self.count += 1
        try:
            producer, meant_for, sequence, checksum = parse(value)
        except DamagedRecord as damage:
            self.complain(f"partition {partition} offset {offset}: {damage}")
            return
        if meant_for != partition:
            self.complain(f"partition {partition} offset {offset}: meant for {meant_for}")
        self._note(producer, partition, sequence, offset, checksum)

    def _note(
        self, producer: int, partition: int, sequence: int, offset: int, checksum: int
    ) -> None:
        seen = self._read.get((producer, partition))
        if seen is None:
            seen = self._read[producer, partition] = Read()
        if sequence <= seen.last_sequence:
            self.complain(
                f"partition {partition} offset {offset}: sequence {sequence} of producer "
                f"{producer} came again, after {seen.last_sequence}"
            )
        else:
            seen.missing += sequence - seen.last_sequence - 1
            seen.last_sequence = sequence
        mark = fingerprint(producer, sequence, offset, checksum)
        if self._failed and sequence in self._failed.get((producer, partition), ()):
            seen.doubtful += 1
            seen.doubtful_sum = (seen.doubtful_sum + mark) & SUM_MASK
        else:
            seen.count += 1
            seen.sum = (seen.sum + mark) & SUM_MASK

    def complain(self, problem: str) -> None:
        """Count a problem and keep its description while there is room."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)

    def to_dict(self) -> dict[str, Any]:
        """As JSON sees it."""
        return {
            "problems": self.problems,
            "problem_count": self.problem_count,
            "ends": {str(partition): end for partition, end in self._next_offset.items()},
            "read": [
                {"producer": producer, "partition": partition, **asdict(seen)}
                for (producer, partition), seen in sorted(self._read.items())
            ],
        }
