"""Which manifests are written together, so that their number stays small.

Manifests lie in tiers by the number of their files: less than 8, less than 64, and so on. When a
tier has 8 they become one of the next. So a table of n files has some 8 manifests per tier, and an
entry is written again about log8(n) times; merging everything at once, as Iceberg's own writers
do, would write every entry each time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyiceberg.manifest import ManifestEntry, ManifestFile

FANOUT = 8
FILES_MAX = 4_096
"""A manifest with half as many files is left alone."""


@dataclass(eq=False, slots=True)
class Piece:
    """What becomes one manifest: one that exists already and stays, or entries and manifests that
    are written together."""

    spec_id: int
    files: int
    """How many files of it are in the table."""
    kept: ManifestFile | None = None
    entries: list[ManifestEntry] = field(default_factory=list)
    """New entries, and entries of manifests that lost some."""
    merged: list[ManifestFile] = field(default_factory=list)
    """Manifests whose live entries go into the new one."""


def live_files(manifest: ManifestFile) -> int:
    """How many files of a manifest are in the table."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def tier(files: int) -> int:
    """In which tier a manifest with so many files is."""
    found = 0
    while files >= FANOUT:
        files //= FANOUT
        found += 1
    return found


def merge(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with full tiers merged, the newest first, as they were given."""
    merged = list(pieces)
    while (crowd := _crowded(merged)) is not None:
        rest = [piece for piece in merged if piece not in crowd]
        merged = [_together(crowd), *rest]
    return merged


def _crowded(pieces: Sequence[Piece]) -> list[Piece] | None:
    tiers: dict[tuple[int, int], list[Piece]] = defaultdict(list)
    for piece in pieces:
        if piece.files <= FILES_MAX // 2:
            tiers[piece.spec_id, tier(piece.files)].append(piece)
    for key in sorted(tiers):
        crowd, files = [], 0
        for piece in tiers[key]:
            if files + piece.files <= FILES_MAX:
                crowd.append(piece)
                files += piece.files
        if len(tiers[key]) >= FANOUT and len(crowd) > 1:
            return crowd
    return None


def _together(pieces: Sequence[Piece]) -> Piece:
    whole = Piece(pieces[0].spec_id, sum(piece.files for piece in pieces))
    for piece in pieces:
        whole.entries += piece.entries
        whole.merged += piece.merged
        if piece.kept is not None:
            whole.merged.append(piece.kept)
    return whole
