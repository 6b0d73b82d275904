"""Which streams have files that a declaration came too late for, or that an older one made.

Such files are rewritten, some in each round, until there are none: so a declaration covers all
history, and records that did not fit are tried again once the schema is mended. What is behind is
told by the index alone; what is remembered here only saves reading it in every round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from towpath.lakehouse.planner import Planner, Range
from towpath.lakehouse.settings import PipelineSettings
from towpath.runtime import Runtime
from towpath.topics.interface import Topic
from towpath.typed.declaration import declared


class Backfills:
    """Looks for files that are behind."""

    def __init__(self, planner: Planner, runtime: Runtime, settings: PipelineSettings) -> None:
        self._planner = planner
        self._clock = runtime.clock
        self._settings = settings
        self._current: dict[int, tuple[str, int]] = {}
        """By stream: for which stamp all files were right, and when that was looked at."""

    def places(self, topics: Iterable[Topic]) -> Iterator[tuple[Topic, int]]:
        """Topic and partition of the streams that should be looked at now. A compactor that had
        not heard of a new declaration may have written files since, so they are looked at again."""
        now_ms = self._clock.monotonic_ms()
        alive: set[int] = set()
        for topic in topics:
            declaration = declared(topic.overrides)
            if declaration is None:
                continue
            for partition in range(topic.partitions):
                stream = topic.stream(partition)
                alive.add(stream)
                stamp, looked_ms = self._current.get(stream, ("", 0))
                is_fresh = now_ms - looked_ms < self._settings.clean_interval_ms
                if stamp != declaration.stamp or not is_fresh:
                    yield topic, partition
        self._current = {stream: at for stream, at in self._current.items() if stream in alive}

    async def behind(self, topic: Topic, partition: int) -> Range | None:
        """The first files of the stream that are behind, as many as one task takes; or None."""
        declaration = declared(topic.overrides)
        if declaration is None:
            return None
        found = await self._planner.behind(topic, partition, declaration.stamp)
        if found is None:
            now_ms = self._clock.monotonic_ms()
            self._current[topic.stream(partition)] = (declaration.stamp, now_ms)
        return found
