"""What was acknowledged and what may be there: compared with the log after every fault."""

from __future__ import annotations

from collections import Counter

from tests.integration.harness.raw_batches import decode_batches
from tests.integration.harness.wire import Connection


class Ledger:
    """The truth of one partition, as its producers know it."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._at: dict[int, bytes] = {}
        """Every acknowledged record by offset."""
        self._sent: Counter[bytes] = Counter()
        """How often each value may be in the log at most."""

    def sent(self, values: list[bytes]) -> None:
        """These values may be there once more. Not to be called for an idempotent retry."""
        self._sent.update(values)

    def acknowledged(self, base_offset: int, values: list[bytes]) -> None:
        """A producer was told these offsets; being told the same twice is no contradiction."""
        for offset, value in enumerate(values, base_offset):
            assert self._at.setdefault(offset, value) == value, f"offset {offset} given out twice"

    @property
    def acknowledged_count(self) -> int:
        """How many records must be there."""
        return len(self._at)

    def check(self, port: int) -> list[bytes]:
        """Compare with the log that a broker shows; the log's values."""
        found = read_log(port, self.topic)
        for offset, value in self._at.items():
            assert offset < len(found), f"offset {offset} was acknowledged, the end is {len(found)}"
            assert found[offset] == value, f"offset {offset} has other bytes than acknowledged"
        too_often = Counter(found) - self._sent
        assert not too_often, f"more often there than sent: {list(too_often.items())[:3]}"
        return found


def read_log(port: int, topic: str) -> list[bytes]:
    """All values of partition 0, whose offsets must have no gaps, up to the log end."""
    values: list[bytes] = []
    with Connection("127.0.0.1", port) as connection:
        while records := list(decode_batches(connection.fetch(topic, 0, len(values)).records)):
            for offset, value in records:
                if offset >= len(values):
                    assert offset == len(values), f"offset {offset} follows {len(values) - 1}"
                    values.append(value)
        error, _, end = connection.list_offset(topic, 0, -1)
        assert (error, end) == (0, len(values))
    return values
