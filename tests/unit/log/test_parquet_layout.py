"""Offsets lead to the files and row groups that hold them, and to no others."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.log.object.parquet_damage import BrokenParquet
from towpath.log.object.parquet_file import FetchedFile
from towpath.log.object.parquet_footer import parse_footer
from towpath.log.object.parquet_layout import ByteRange, Footer, RowGroup, lay_out
from towpath.log.object.stretches import DataFile, stretches
from towpath.log.object.thrift_compact import CompactReader

START, END = 100, 200


@st.composite
def offset_sets(draw: st.DrawFn) -> list[list[list[int]]]:
    """Files of row groups of offsets; every offset is in one row group at most."""
    owners = draw(st.lists(st.integers(-1, 3), min_size=END - START, max_size=END - START))
    files = []
    for number in range(4):
        own = [START + at for at, owner in enumerate(owners) if owner == number]
        cuts = sorted(draw(st.sets(st.integers(1, max(1, len(own))), max_size=4)))
        bounds = [0, *cuts, len(own)]
        groups = [own[low:high] for low, high in itertools.pairwise(bounds) if own[low:high]]
        if groups:
            files.append(groups)
    return files


def data_file(number: int, groups: list[list[int]]) -> DataFile:
    count = sum(map(len, groups))
    return DataFile(f"f{number}", 0, 0, count, groups[0][0], groups[-1][-1], 0, 0)


def footer(number: int, groups: list[list[int]]) -> Footer:
    found = [
        RowGroup(at, len(group), group[0], group[-1], 0, (), ()) for at, group in enumerate(groups)
    ]
    return Footer(data_file(number, groups), tuple(found), None)


@given(offset_sets())
def test_every_offset_is_in_one_piece_that_has_its_row_group(files: list[list[list[int]]]) -> None:
    footers = {f"f{number}": footer(number, groups) for number, groups in enumerate(files)}
    found = stretches(START, END, [one.file for one in footers.values()])
    if not files:
        assert found == ()
        return
    assert found[0].start == START
    assert found[-1].end == END
    assert all(one.end == two.start for one, two in itertools.pairwise(found))
    seen: set[int] = set()
    for stretch in found:
        layout = lay_out(stretch, [footers[file.path] for file in stretch.files])
        pieces = layout.pieces
        assert (pieces[0].start, pieces[-1].end) == (stretch.start, stretch.end)
        assert all(one.end == two.start for one, two in itertools.pairwise(pieces))
        for piece in pieces:
            assert piece == layout.piece_at(piece.start) == layout.piece_at(piece.end - 1)
            held: set[int] = set()
            for part in piece.parts:
                group = files[int(part.footer.file.path[1:])][part.group.number]
                inside = {offset for offset in group if piece.start <= offset < piece.end}
                assert part.is_shared == (group[0] < piece.start or group[-1] >= piece.end)
                assert not held & inside
                held |= inside
            seen |= held
    assert seen == {offset for groups in files for group in groups for offset in group}


def test_row_groups_of_one_file_are_pieces_of_their_own() -> None:
    groups = [[101, 105], [106], [120, 199]]
    (stretch,) = stretches(START, END, [data_file(0, groups)])
    layout = lay_out(stretch, [footer(0, groups)])
    assert [(one.start, one.end, len(one.parts)) for one in layout.pieces] == [
        (100, 106, 1),
        (106, 120, 1),
        (120, 200, 1),
    ]
    assert not any(part.is_shared for one in layout.pieces for part in one.parts)


def test_a_file_of_ranges_gives_what_was_fetched_and_nothing_else() -> None:
    ranges = [ByteRange(10, 5), ByteRange(15, 5), ByteRange(30, 5)]
    buffers = [memoryview(b"abcde"), memoryview(b"fghij"), memoryview(b"klmno")]
    file = FetchedFile(40, ranges, buffers)
    for start, length, wanted in ((10, 5, b"abcde"), (12, 6, b"cdefgh"), (33, 2, b"no")):
        file.seek(start)
        assert bytes(file.read(length)) == wanted
        assert file.tell() == start + length
    assert (file.seek(0, 2), bytes(file.read(0)), bytes(file.read())) == (40, b"", b"")
    for start, length in ((9, 2), (18, 5), (30, 6), (36, 1)):
        file.seek(start)
        with pytest.raises(OSError, match="were not fetched"):
            file.read(length)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_struct_or_an_error(data: bytes) -> None:
    try:
        CompactReader(data).struct()
    except (ValueError, IndexError):
        pass


@given(st.binary(max_size=200))
def test_any_bytes_as_footer_are_damage(data: bytes) -> None:
    tail = data + len(data).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(BrokenParquet):
        parse_footer(DataFile("f", 10_000, len(tail), 1, 0, 0, 0, 0), tail)
