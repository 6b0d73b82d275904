"""The number of manifests stays small, and no file is lost or written twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import ManifestFile
from tests.unit.lakehouse.helpers_iceberg import TOPIC, Lake, append, handle, offsets_by_pyiceberg

from towpath.lakehouse.iceberg import snapshots
from towpath.lakehouse.iceberg.tiers import FANOUT, FILES_MAX, Piece, live_files, merge, tier
from towpath.lakehouse.tables import Change, Mark


def manifest(files: int, number: int = 0) -> ManifestFile:
    return ManifestFile.from_args(
        manifest_path=f"m{number}-{files}",
        manifest_length=1,
        partition_spec_id=0,
        added_files_count=0,
        existing_files_count=files,
    )


def kept(files: int, number: int = 0, spec_id: int = 0) -> Piece:
    return Piece(spec_id, files, kept=manifest(files, number))


def sources(pieces: list[Piece]) -> list[str]:
    found = []
    for piece in pieces:
        whole = [piece.kept] if piece.kept is not None else []
        found += [source.manifest_path for source in whole + piece.merged]
    return sorted(found)


def test_tiers_are_powers_of_the_fanout() -> None:
    assert [tier(files) for files in (0, 1, 7, 8, 63, 64, 511, 512)] == [0, 0, 0, 1, 1, 2, 2, 3]


def test_a_crowded_tier_becomes_one_manifest() -> None:
    assert len(merge([kept(1, number) for number in range(FANOUT - 1)])) == FANOUT - 1
    (whole,) = merge([kept(1, number) for number in range(FANOUT)])
    assert whole.kept is None
    assert whole.files == len(whole.merged) == FANOUT


def test_a_merge_may_fill_the_next_tier() -> None:
    pieces = [kept(1, number) for number in range(FANOUT)]
    pieces += [kept(FANOUT, number) for number in range(FANOUT - 1)]
    (whole,) = merge(pieces)
    assert whole.files == FANOUT * FANOUT


def test_specs_are_not_mixed() -> None:
    pieces = [kept(1, number, spec_id=number % 2) for number in range(FANOUT + 2)]
    assert merge(pieces) == pieces


@given(st.lists(st.integers(0, FILES_MAX), max_size=60))
def test_nothing_is_lost_and_little_is_left(sizes: list[int]) -> None:
    pieces = [kept(files, number) for number, files in enumerate(sizes)]
    merged = merge(pieces)
    assert sources(merged) == sources(pieces)
    assert all(piece.files <= FILES_MAX for piece in merged)
    for level in range(tier(FILES_MAX) + 1):
        small = [piece.files for piece in merged if piece.files <= FILES_MAX // 2]
        crowd = sorted(files for files in small if tier(files) == level)
        assert len(crowd) < FANOUT or sum(crowd[:2]) > FILES_MAX


def test_a_table_of_many_commits_has_few_manifests() -> None:
    pieces: list[Piece] = []
    written = 0
    for number in range(3_000):
        before = {id(piece) for piece in pieces}
        pieces = merge([Piece(0, 1), *pieces])
        written += sum(piece.files for piece in pieces if id(piece) not in before)
        for piece in pieces:
            piece.kept, piece.merged = manifest(piece.files, number), []
    assert len(pieces) < FANOUT * (tier(3_000) + 1)
    assert written < 3_000 * (tier(3_000) + 2)


async def test_merged_manifests_keep_when_a_file_came(tmp_path: Path) -> None:
    lake = Lake.at(tmp_path)
    tables = lake.tables()
    table = await tables.create(TOPIC)
    for number in range(20):
        file = lake.write(table.field_ids, number % 3, [number])
        # A new user remembers nothing, and reads what the others wrote.
        table = await lake.tables().commit(table, append(table, (number % 3, file)))
    found = handle(table)
    snapshot = found.current_snapshot()
    assert snapshot is not None
    manifests = snapshot.manifests(found.io)
    assert len(manifests) < FANOUT
    assert sum(map(live_files, manifests)) == 20
    entries = [entry for one in manifests for entry in one.fetch_manifest_entry(found.io)]
    came = {entry.data_file.file_path: entry.sequence_number for entry in entries}
    assert sorted(number or 0 for number in came.values()) == list(range(1, 21))
    assert {entry.file_sequence_number for entry in entries} == set(range(1, 21))
    assert {entry.snapshot_id for entry in entries} == {
        snapshot.snapshot_id for snapshot in found.metadata.snapshots
    }
    assert len(offsets_by_pyiceberg(table)) == 20


async def test_removed_files_are_told_once(tmp_path: Path) -> None:
    lake = Lake.at(tmp_path)
    tables = lake.tables()
    table = await tables.create(TOPIC)
    files = [(0, lake.write(table.field_ids, 0, [number])) for number in range(12)]
    for _, file in files:
        table = await tables.commit(table, append(table, (0, file)))
    table = await tables.commit(table, Change({}, removed=[files[0], files[11]]))
    assert deleted_files(table) == 2
    table = await tables.commit(table, Change({0: Mark(12, "task-2")}))
    assert deleted_files(table) == 0
    assert sorted(await tables.files(table)) == sorted((0, file.path) for _, file in files[1:11])


def deleted_files(table: object) -> int:
    found = handle(table)  # type: ignore[arg-type]
    snapshot = found.current_snapshot()
    assert snapshot is not None
    return sum(one.deleted_files_count or 0 for one in snapshot.manifests(found.io))


async def test_very_many_files_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "FILES_MAX", 4)
    lake = Lake.at(tmp_path)
    tables = lake.tables()
    table = await tables.create(TOPIC)
    files = [(0, lake.write(table.field_ids, 0, [number])) for number in range(10)]
    table = await tables.commit(table, append(table, *files))
    found = handle(table)
    snapshot = found.current_snapshot()
    assert snapshot is not None
    counts = [live_files(one) for one in snapshot.manifests(found.io)]
    assert counts == [4, 4, 2]
    table = await tables.commit(table, Change({}, removed=files[:6]))
    assert len(await tables.files(table)) == 4
