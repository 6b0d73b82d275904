"""A stream's progress as the committed offsets of a group, so that its lag shows in any Kafka tool.

Spark tells a source that a micro-batch is done only when the next one is about to begin, which may
be never. So what else shows it is used, too: Spark asks how far there is to go when the micro-batch
before is done, and the query's checkpoint, where it is known, notes those that are.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from types import FrameType
from uuid import UUID

import structlog

from pyspark_towpath.progress import Progress, last_done_in_checkpoint
from pyspark_towpath.read_options import ReadOptions

logger = structlog.get_logger(__name__)


class GroupProgress:
    """Writes the progress of one stream. It is not picky about failures of the store: the next
    commit tells more than the one that failed. A group that has members is an error."""

    def __init__(self, options: ReadOptions, group_id: str) -> None:
        self._options = options
        self._group_id = group_id
        self._has_begun = False
        self._planned: Progress | None = None
        """The end of the micro-batch that is under way."""
        self._written: Mapping[int, int] | None = None

    @classmethod
    def of(cls, options: ReadOptions) -> GroupProgress | None:
        """None if no group is asked for."""
        return None if options.group_id is None else cls(options, options.group_id)

    def batch_is_planned(self, start: Progress, end: Progress) -> None:
        """A micro-batch begins. Of an empty one Spark only tells where a query goes on."""
        self._begin()
        self._planned = end if start != end else None

    def batch_is_done(self) -> None:
        """Spark asks for more: if a micro-batch was under way it is done."""
        self._begin()
        if self._planned is not None:
            done, self._planned = self._planned, None
            self.reached(done)

    def reached(self, progress: Progress) -> None:
        """Everything before is done. Raises GroupInUse if the group has members."""
        from towpath.groups.offsets.blocking import CommitFailed, OutsideCommits

        if progress.offsets == self._written:
            return
        try:
            OutsideCommits(self._options.stores.metadata_path).commit(
                self._group_id, progress.topic, UUID(progress.topic_id), progress.offsets
            )
        except CommitFailed as error:
            logger.warning("a group's offsets are not committed", error=str(error))
            return
        self._written = dict(progress.offsets)

    def query_ends(self) -> None:
        """If the last micro-batch was finished, the checkpoint tells it."""
        if self._has_begun:
            self._catch_up()

    def _begin(self) -> None:
        """Once, in the process beside the driver: see that the group may be written."""
        if self._has_begun:
            return
        from towpath.groups.offsets.blocking import OutsideCommits

        OutsideCommits(self._options.stores.metadata_path).check(self._group_id)
        self._has_begun = True
        if self._options.checkpoint is not None:
            end_by_signal()
            self._catch_up()

    def _catch_up(self) -> None:
        """Commit what the checkpoint says is done."""
        if self._options.checkpoint is None:
            return
        done = last_done_in_checkpoint(self._options.checkpoint, self._options.topic)
        if done is not None:
            self.reached(done)


def end_by_signal() -> None:
    """Let SIGTERM, by which Spark ends a source's process, end it in order, so that the source is
    told."""

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        signal.signal(number, signal.SIG_IGN)  # Spark sends it twice.
        sys.exit(0)

    try:
        signal.signal(signal.SIGTERM, leave)
    except ValueError:
        return  # Not the main thread: it is not Spark's process.
