"""What batch and streaming writes have in common: a task stages, the driver commits.

Spark makes a writer on the driver, sends it to the tasks, and commits in another process of the
driver. Tasks reach the object store only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_towpath.between_tasks import lighten
from pyspark_towpath.sink_columns import check_columns
from pyspark_towpath.sink_options import SinkOptions
from towpath import fault_points
from towpath.objects.worker import open_worker_objects
from towpath.runtime import inline_runtime
from towpath.writing.commit import Epoch
from towpath.writing.driver import TopicDriver
from towpath.writing.errors import WriteFailed
from towpath.writing.staged import Staged
from towpath.writing.stager import Stager
from towpath.writing.target import Target

STAGED = "sink-staged"
BEFORE_COMMIT = "sink-before-commit"
AFTER_COMMIT = "sink-after-commit"
"""Where a test may stop a task or the driver."""


@dataclass
class StagedMessage(WriterCommitMessage):
    """What a task tells the driver."""

    staged: Staged


def begin(options: SinkOptions, schema: StructType) -> Target:
    """On the driver: check everything that can be checked before there are rows."""
    check_columns(schema)
    target = TopicDriver(options.settings()).begin(options.topic, options.compression)
    lighten()
    return target


def stage(target: Target, batches: Iterable[pa.RecordBatch]) -> StagedMessage:
    """In a task: stage all rows."""
    objects = open_worker_objects(target.objects_url, target.objects_options)
    stager = Stager(target, objects, inline_runtime())
    try:
        for batch in batches:
            stager.add(batch)
        staged = stager.finish()
    except BaseException:
        stager.discard()
        raise
    fault_points.from_environment(os.environ)(STAGED)
    lighten()
    return StagedMessage(staged)


def commit(
    options: SinkOptions, messages: Sequence[WriterCommitMessage | None], epoch: Epoch | None
) -> None:
    """On the driver: make everything visible."""
    staged = _staged(messages)
    if len(staged) < len(messages):
        raise WriteFailed(f"{len(messages) - len(staged)} tasks have not told what they staged")
    reached = fault_points.from_environment(os.environ)
    reached(BEFORE_COMMIT)
    TopicDriver(options.settings()).commit(staged, epoch)
    reached(AFTER_COMMIT)
    lighten()


def abort(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """On the driver, after a failure: take back what was staged.

    Spark also calls this when the commit has failed, and does not tell. Then every task has a
    message, and the commit itself has deleted what is certain to be in vain; what remains may be
    visible, and only the orphan collector may judge it.
    """
    staged = _staged(messages)
    if len(staged) < len(messages):
        TopicDriver(options.settings()).discard(staged)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [message.staged for message in messages if isinstance(message, StagedMessage)]


def plain_options(options: Mapping[str, str]) -> dict[str, str]:
    """A copy that can be pickled anywhere."""
    return {str(name): str(value) for name, value in options.items()}
