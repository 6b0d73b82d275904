"""Keeping a table's metadata small: which snapshots go, and which files nobody needs after that.

A file is deleted only if no snapshot that is kept, no earlier metadata in the log and no statistics
name it. What a crash leaves behind is found by a sweep of the metadata directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog
from pyiceberg.io import FileIO
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    RemovePartitionStatisticsUpdate,
    RemoveSnapshotsUpdate,
    TableUpdate,
)
from pyiceberg.utils.concurrent import ExecutorFactory
from pyiceberg.utils.properties import property_as_bool

from towpath.lakehouse.iceberg.manifests import Manifests
from towpath.lakehouse.iceberg.marks import OFFSETS

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class UpkeepSettings:
    """How much history tables keep. The current snapshot, tags and heads of branches stay."""

    snapshot_max_age_ms: int = HOUR_MS
    """Older snapshots go, but for the newest ones."""
    snapshots_min: int = 20
    """The newest ones, which stay although they are older than that."""
    snapshots_max: int = 200
    """More go, whatever their age."""
    summaries_max_bytes: int = 1 << 20
    """More go also if what they say of offsets takes more than this: every commit writes it."""
    snapshot_final_age_ms: int = 24 * HOUR_MS
    """Every snapshot older than this goes, so that deleted records leave an idle table too."""
    snapshots_per_expiry: int = 10
    """Fewer than so many wait for company, but not for long."""
    sweep_grace_ms: int = 24 * HOUR_MS
    """Metadata files that nothing names are deleted after this; no commit takes so long."""


def expirable(metadata: TableMetadata, now_ms: int, settings: UpkeepSettings) -> list[Snapshot]:
    """The snapshots that go now; none if it is not worth a commit yet."""
    heads = {ref.snapshot_id for ref in metadata.refs.values()}
    limit = _most(metadata, settings)
    newest_first = sorted(
        metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0, reverse=True
    )
    old = [
        snapshot
        for rank, snapshot in enumerate(newest_first)
        if snapshot.snapshot_id not in heads
        and _is_old(rank, now_ms - snapshot.timestamp_ms, limit, settings)
    ]
    if not old:
        return []
    waited_ms = now_ms - old[-1].timestamp_ms - settings.snapshot_max_age_ms
    is_worth_it = len(old) >= settings.snapshots_per_expiry
    return old if is_worth_it or waited_ms >= settings.snapshot_max_age_ms else []


def _most(metadata: TableMetadata, settings: UpkeepSettings) -> int:
    """How many snapshots are kept at most: fewer where a topic has very many partitions."""
    head = metadata.snapshot_by_name(MAIN_BRANCH)
    if head is None or head.summary is None:
        return settings.snapshots_max
    summary_bytes = len(head.summary.additional_properties.get(OFFSETS, "")) or 1
    affordable = settings.summaries_max_bytes // summary_bytes
    return min(settings.snapshots_max, max(settings.snapshots_min, affordable))


def _is_old(rank: int, age_ms: int, limit: int, settings: UpkeepSettings) -> bool:
    if rank >= limit or age_ms >= settings.snapshot_final_age_ms:
        return True
    return rank >= settings.snapshots_min and age_ms >= settings.snapshot_max_age_ms


def expiry(metadata: TableMetadata, snapshots: Sequence[Snapshot]) -> tuple[TableUpdate, ...]:
    """What the catalog is asked for to expire them; nothing without any."""
    if not snapshots:
        return ()
    ids = [snapshot.snapshot_id for snapshot in snapshots]
    # pyiceberg removes a snapshot's statistics by itself, but not those of its partitions.
    partition_statistics = [
        RemovePartitionStatisticsUpdate.model_validate({"snapshot-id": statistics.snapshot_id})
        for statistics in metadata.partition_statistics
        if statistics.snapshot_id in ids
    ]
    return (*partition_statistics, RemoveSnapshotsUpdate.model_validate({"snapshot-ids": ids}))


class Cleaner:
    """Deletes metadata files that are not needed any more. Best effort: a failure is logged, and
    the sweep finds the file later."""

    def __init__(self, manifests: Manifests) -> None:
        self._manifests = manifests

    def after_commit(self, before: TableMetadata, after: Table) -> int:
        """Delete what `before` named and `after` does not; how many files."""
        kept = {snapshot.snapshot_id for snapshot in after.metadata.snapshots}
        expired = [snapshot for snapshot in before.snapshots if snapshot.snapshot_id not in kept]
        unneeded = _left_the_log(before, after)
        try:
            unneeded |= self._of_expired(after.io, before, after.metadata, expired)
        except Exception as error:  # noqa: BLE001 - the commit succeeded; the sweep will find them.
            logger.warning("expired metadata is left for the sweep", error=str(error))
        return self.delete(after.io, unneeded)

    def _of_expired(
        self,
        io: FileIO,
        before: TableMetadata,
        after: TableMetadata,
        expired: Sequence[Snapshot],
    ) -> set[str]:
        if not expired:
            return set()
        lost = self._files_of(io, expired, missing_ok=True) | _statistics(before)
        return lost - self._files_of(io, after.snapshots) - _statistics(after)

    def referenced(self, table: Table) -> set[str]:
        """Every metadata file the table names."""
        metadata = table.metadata
        files = self._files_of(table.io, metadata.snapshots) | _statistics(metadata)
        files |= {log.metadata_file for log in metadata.metadata_log}
        return files | {table.metadata_location}

    def _files_of(
        self, io: FileIO, snapshots: Sequence[Snapshot], *, missing_ok: bool = False
    ) -> set[str]:
        """The manifest lists of the snapshots and all their manifests."""

        def read(snapshot: Snapshot) -> set[str]:
            paths = {snapshot.manifest_list}
            with suppress(*((FileNotFoundError,) if missing_ok else ())):
                manifests = self._manifests.of_snapshot(io, snapshot)
                paths |= {manifest.manifest_path for manifest in manifests}
            return paths

        return set().union(*ExecutorFactory.get_or_create().map(read, snapshots))

    def delete(self, io: FileIO, paths: Iterable[str]) -> int:
        """Delete them; how many were there."""
        paths = list(paths)
        self._manifests.forget(paths)
        deleted = 0
        for path in paths:
            try:
                io.delete(path)
                deleted += 1
            except FileNotFoundError:
                continue
            except Exception as error:  # noqa: BLE001 - as above.
                logger.warning("metadata file not deleted", path=path, error=str(error))
        return deleted


def _left_the_log(before: TableMetadata, after: Table) -> set[str]:
    """Earlier metadata files that are not in the log any more."""
    if not property_as_bool(
        after.metadata.properties, TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED, False
    ):
        return set()
    left = {log.metadata_file for log in before.metadata_log}
    left -= {log.metadata_file for log in after.metadata.metadata_log}
    return left - {after.metadata_location}


def _statistics(metadata: TableMetadata) -> set[str]:
    files = [*metadata.statistics, *metadata.partition_statistics]
    return {file.statistics_path for file in files}
