"""Metadata files that nothing names: what crashes, lost answers and lost races left behind.

Tables may share a metadata directory: that of a topic and that of an earlier topic of its name. So
a file is a table's own only if it says so, by its name or by what is in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.io import FileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table

from towpath.lakehouse.iceberg.locations import Locations
from towpath.lakehouse.iceberg.maintenance import Cleaner

METADATA_SUFFIX = ".metadata.json"
METADATA_READS_MAX = 200
"""Metadata files that are read in one sweep to see whose they are."""


def unreferenced(
    table: Table, cleaner: Cleaner, locations: Locations, paths: Sequence[str]
) -> list[str]:
    """Those of `paths` that are the table's own and not named by it. The table must have been
    loaded after the paths were listed."""
    named = {locations.path(uri) for uri in cleaner.referenced(table)}
    candidates = [path for path in paths if path not in named]
    uuid = str(table.metadata.table_uuid)
    own = [path for path in candidates if _is_ours(path, uuid)]
    unread = [path for path in candidates if path.endswith(METADATA_SUFFIX)]
    own += [
        path
        for path in unread[:METADATA_READS_MAX]
        if _table_uuid(table.io, locations.uri(path)) == uuid
    ]
    return own


def _is_ours(path: str, uuid: str) -> bool:
    """Whether it is a manifest or a manifest list that we wrote for the table."""
    name = path.rpartition("/")[2]
    return name.endswith(".avro") and (
        name.startswith(f"{uuid}-") or (name.startswith("snap-") and name.endswith(f"-{uuid}.avro"))
    )


def _table_uuid(io: FileIO, uri: str) -> str | None:
    """Which table a metadata file is of; None for one that cannot be read."""
    try:
        return str(FromInputFile.table_metadata(io.new_input(uri)).table_uuid)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is not known to be ours.
        return None
