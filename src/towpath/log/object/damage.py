"""What a read can find wrong with an object that an index entry names."""

from __future__ import annotations

import structlog

from towpath.errors import LogDamaged
from towpath.log.object.entries import Entry
from towpath.observe.metrics import Metrics

logger = structlog.get_logger(__name__)


class Moved(Exception):
    """An object is gone: the index must be read again to see where its range lies now."""

    def __init__(self, entry: Entry, path: str) -> None:
        super().__init__(f"object {path} is gone")
        self.entry = entry
        self.path = path


class Damage:
    """Counts and logs damage."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def of_object(self, entry: Entry, path: str, what: str) -> LogDamaged:
        """The error to raise for an object that is not as the index says."""
        self._metrics.damaged_objects.inc()
        logger.error(
            "committed object is missing or damaged",
            path=path,
            what=what,
            stream_id=entry.stream_id,
            start=entry.start,
            end=entry.end,
        )
        return LogDamaged(f"object {path} {what}")

    def of_index(self, stream_id: int, offset: int) -> LogDamaged:
        """The error to raise for an offset that no entry holds."""
        self._metrics.damaged_objects.inc()
        return LogDamaged(f"stream {stream_id} has no index entry for offset {offset}")
