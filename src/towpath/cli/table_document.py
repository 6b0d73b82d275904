"""A table's metadata file as Iceberg's specification writes it, read without the Iceberg library.

Loading that library takes more than a second; most of what people ask is in this one JSON document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TOPIC = "dray.topic"
TOPIC_ID = "dray.topic_id"
OWN_PROPERTIES = "dray."
"""How the names of properties begin that Towpath gave."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of the table."""

    snapshot_id: int
    parent_id: int | None
    committed_at_ms: int
    operation: str | None
    summary: Mapping[str, str] = field(hash=False)

    def count(self, name: str) -> int | None:
        """A number of the summary; None if it does not tell."""
        text = self.summary.get(name)
        return int(text) if text is not None and text.isdecimal() else None

    def change(self, name: str) -> int:
        """A number of the summary that is left out when nothing changed."""
        return self.count(name) or 0


@dataclass(frozen=True, slots=True)
class TableDocument:
    """One table's metadata; `fields` is the whole document."""

    namespace: tuple[str, ...]
    name: str
    metadata_file: str
    fields: Mapping[str, Any] = field(hash=False, repr=False)

    @property
    def identifier(self) -> str:
        """Namespace and name, as people write it."""
        return ".".join((*self.namespace, self.name))

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        found: Mapping[str, str] = self.fields.get("properties") or {}
        return found

    @property
    def topic(self) -> str | None:
        """The topic whose records it holds; None for a table that Towpath did not make."""
        return self.properties.get(TOPIC)

    @property
    def topic_id(self) -> str | None:
        """Tells apart topics of the same name."""
        return self.properties.get(TOPIC_ID)

    @property
    def snapshots(self) -> list[Snapshot]:
        """Every snapshot that is kept, oldest first."""
        return [_snapshot(fields) for fields in self.fields.get("snapshots") or []]

    @property
    def current(self) -> Snapshot | None:
        """The snapshot that readers see; None before the first."""
        current_id = self.fields.get("current-snapshot-id")
        found = [s for s in self.snapshots if s.snapshot_id == current_id]
        return found[0] if found else None


def _snapshot(fields: Mapping[str, Any]) -> Snapshot:
    summary: dict[str, str] = dict(fields.get("summary") or {})
    return Snapshot(
        snapshot_id=fields["snapshot-id"],
        parent_id=fields.get("parent-snapshot-id"),
        committed_at_ms=fields["timestamp-ms"],
        operation=summary.pop("operation", None),
        summary=summary,
    )
