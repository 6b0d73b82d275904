"""How `towpath tables` shows its reports to people."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from towpath.cli.describe_topics import human_size
from towpath.cli.output import table
from towpath.cli.table_document import OWN_PROPERTIES
from towpath.cli.table_files import FileReport
from towpath.cli.table_reports import PartitionReport, SnapshotReport, TableReport
from towpath.lakehouse.iceberg.marks import PARTITIONS

if TYPE_CHECKING:
    from towpath.cli.describe_table import Description

TITLES = {
    "pyiceberg": f"pyiceberg, in {sys.executable}",
    "duckdb": f"DuckDB, in {sys.executable}",
    "spark_sql": "Spark SQL",
}
OFFSETS_SHOWN = 8
"""Partitions of a snapshot that are shown; `--output json` has them all."""


def show_tables(reports: Sequence[TableReport]) -> None:
    """A line per table."""
    if not reports:
        print("no tables yet")
        return
    columns = ("table", "topic", "rows", "files", "size", "snapshots", "lag", "last commit")
    rows = [
        [
            report.table,
            _topic(report),
            _dash(report.rows),
            _dash(report.files),
            _size(report.size_bytes),
            str(report.snapshots),
            _dash(report.lag_records),
            _time(report.last_commit_ms),
        ]
        for report in reports
    ]
    table(columns, rows)


def show_description(found: Description) -> None:
    """Everything about one table, with lines to copy."""
    report = found.report
    own = [
        f"{name}={value}"
        for name, value in sorted(found.properties.items())
        if name.startswith(OWN_PROPERTIES) and name != PARTITIONS
    ]
    print(f"table         {report.table}")
    print(f"topic         {_topic(report)}")
    print(f"location      {found.location}")
    print(f"metadata      {found.metadata_file}")
    print(f"format        Iceberg v{found.format_version}")
    print(f"snapshot      {_snapshot(found)}")
    print(f"partitioning  {', '.join(part.shown for part in found.partitioning) or 'none'}")
    print(f"values        {found.values or 'bytes; no columns declared'}")
    print(f"properties    {', '.join(own)}")
    print()
    columns = [
        [str(c.field_id), c.name, c.type, "yes" if c.required else "no"] for c in found.schema
    ]
    table(("id", "column", "type", "required"), columns)
    print()
    _show_partitions(found.partitions)
    for program, text in found.read_with.items():
        print(f"\n# {TITLES[program]}\n{text}")


def show_snapshots(reports: Sequence[SnapshotReport]) -> None:
    """A line per snapshot."""
    columns = (
        "snapshot", "parent", "committed", "operation", "files", "rows", "offsets",
    )  # fmt: skip
    rows = [
        [
            str(report.snapshot_id),
            _dash(report.parent_id),
            _time(report.committed_at_ms),
            _dash(report.operation),
            f"+{report.added_files} -{report.removed_files}",
            f"+{report.added_rows} -{report.removed_rows}",
            _offsets(report.offsets),
        ]
        for report in reports
    ]
    table(columns, rows)


def show_files(reports: Sequence[FileReport]) -> None:
    """A line per data file."""
    columns = ("partition", "rows", "size", "offsets", "from", "to", "path")
    rows = [
        [
            str(report.partition),
            str(report.rows),
            human_size(report.size_bytes),
            f"{report.first_offset}-{report.last_offset}",
            _time(report.min_timestamp_ms),
            _time(report.max_timestamp_ms),
            report.path,
        ]
        for report in reports
    ]
    table(columns, rows)


def _show_partitions(reports: Sequence[PartitionReport]) -> None:
    columns = ("partition", "compacted end", "log end", "lag", "files", "rows", "size")
    rows = [
        [
            str(report.partition),
            str(report.compacted_end),
            _dash(report.log_end),
            _dash(report.lag_records),
            str(report.files),
            str(report.rows),
            human_size(report.size_bytes),
        ]
        for report in reports
    ]
    table(columns, rows)


def _snapshot(found: Description) -> str:
    if found.snapshot_id is None:
        return "none yet"
    return f"{found.snapshot_id}, committed {_time(found.report.last_commit_ms)}"


def _topic(report: TableReport) -> str:
    if report.topic is None or report.topic_exists:
        return _dash(report.topic)
    return f"{report.topic} (no topic)"


def _offsets(offsets: Mapping[int, int]) -> str:
    shown = [f"{partition}:{end}" for partition, end in sorted(offsets.items())]
    rest = [f"+{len(shown) - OFFSETS_SHOWN}"] if len(shown) > OFFSETS_SHOWN else []
    return " ".join([*shown[:OFFSETS_SHOWN], *rest]) or "-"


def _dash(value: object) -> str:
    return "-" if value is None else str(value)


def _size(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else human_size(size_bytes)


def _time(timestamp_ms: int | None) -> str:
    """To the second; records may have times that no calendar has."""
    if timestamp_ms is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
