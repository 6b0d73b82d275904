"""What `towpath tables describe` gathers about one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from towpath.cli.stored_topics import StoredTopic
from towpath.cli.table_catalog import TableCatalog, place_of
from towpath.cli.table_document import TableDocument
from towpath.cli.table_files import report_files
from towpath.cli.table_lines import read_lines
from towpath.cli.table_reports import PartitionReport, TableReport, report_partitions, report_table
from towpath.cli.table_schema import Column, PartitionField, columns, partitioning
from towpath.lakehouse.iceberg.locations import root_uri
from towpath.typed.declaration import Declaration

if TYPE_CHECKING:
    from towpath.config import Settings


@dataclass(frozen=True, slots=True)
class Description:
    """Everything about one table."""

    report: TableReport
    location: str
    metadata_file: str
    format_version: int
    snapshot_id: int | None
    values: str | None
    """What the topic declares its values to be."""
    schema: Sequence[Column]
    partitioning: Sequence[PartitionField]
    properties: Mapping[str, str] = field(hash=False)
    partitions: Sequence[PartitionReport]
    read_with: Mapping[str, str] = field(hash=False)
    """Lines to copy, by program."""

    def as_json(self) -> dict[str, Any]:
        """The table for programs."""
        fields = asdict(self)
        return {**fields.pop("report"), **fields}


def describe(
    settings: Settings, catalog: TableCatalog, document: TableDocument, topic: StoredTopic | None
) -> Description:
    """Read the table's manifests and put everything together. Raises CliError."""
    files = report_files(catalog.open(document))
    current = document.current
    root = root_uri(settings.objects_url, settings.objects_options)
    warehouse = f"{root}/{settings.cluster_prefix}/iceberg"
    lines = asdict(read_lines(place_of(settings), document.name, warehouse))
    return Description(
        report=report_table(document, topic),
        location=document.fields["location"],
        metadata_file=document.metadata_file,
        format_version=document.fields["format-version"],
        snapshot_id=None if current is None else current.snapshot_id,
        values=None if topic is None else _values(topic.declaration),
        schema=columns(document.fields),
        partitioning=partitioning(document.fields),
        properties=dict(document.properties),
        partitions=report_partitions(document, topic, files),
        read_with={name: text for name, text in lines.items() if text is not None},
    )


def _values(declaration: Declaration | None) -> str | None:
    if declaration is None:
        return None
    if declaration.infers:
        return f"{declaration.format.value}, columns inferred"
    count = len(declaration.columns())
    return f"{declaration.format.value}, {count} column{'s' if count != 1 else ''} declared"
