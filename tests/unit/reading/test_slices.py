"""Plans are divided into slices of about the same size; nothing is lost and nothing doubled."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from towpath.lakehouse.plan import WalChunk
from towpath.log.object.stretches import DataFile
from towpath.reading.parts import FilePart, Part, PartitionPlan, WalPart
from towpath.reading.slices import (
    SLICE_BYTES_MAX,
    SLICE_BYTES_MIN,
    Slice,
    slices_of,
    stored_bytes,
)

MIB = 1 << 20


def file_part(first: int, count: int, size_bytes: int) -> FilePart:
    file = DataFile(f"{first}.parquet", size_bytes, 1, count, first, first + count - 1, 0, 0)
    return FilePart(file, 0, first + count)


def wal_part(first: int, count: int, size_bytes: int) -> WalPart:
    return WalPart(WalChunk(f"{first}.wo", ((first, 0, size_bytes),)), first, first + count, 0)


def plan_of(partition: int, sizes: list[tuple[bool, int, int]]) -> PartitionPlan:
    parts: list[Part] = []
    at = 0
    for is_file, count, size_bytes in sizes:
        parts.append((file_part if is_file else wal_part)(at, count, size_bytes))
        at += count
    return PartitionPlan(partition, 0, at, tuple(parts))


def offsets(found: list[Slice], partition: int) -> list[tuple[str, int, int]]:
    """Object, first offset and end of every part of a partition, in the order of the slices."""
    parts = [
        part for each in found for run in each.runs if run.partition == partition
        for part in run.parts
    ]  # fmt: skip
    return [
        (part.chunk.path, part.start, part.end)
        if isinstance(part, WalPart)
        else (part.file.path, max(part.start, part.file.first_offset), part.end)
        for part in parts
    ]


some_parts = st.lists(
    st.tuples(st.booleans(), st.integers(1, 100_000), st.integers(1, 200 * MIB)), max_size=6
)


@given(st.lists(some_parts, min_size=1, max_size=4), st.integers(1, 16))
def test_every_offset_is_in_one_slice(sizes: list[list[tuple[bool, int, int]]], cores: int) -> None:
    plans = [plan_of(number, some) for number, some in enumerate(sizes)]
    found = slices_of(plans, cores)
    for plan in plans:
        parts = offsets(found, plan.partition)
        assert all(before[2] == after[1] for before, after in pairwise(parts))
        if plan.parts:
            assert (parts[0][1], parts[-1][2]) == (0, plan.end)
    for each in found:
        size = sum(stored_bytes(part) for run in each.runs for part in run.parts)
        is_one = len(each.runs) == 1 and len(each.runs[0].parts) == 1
        assert is_one or size <= SLICE_BYTES_MAX


def test_small_partitions_share_a_slice() -> None:
    plans = [plan_of(number, [(False, 10, 100)]) for number in range(50)]
    (found,) = slices_of(plans, 8)
    assert [run.partition for run in found.runs] == list(range(50))
    assert slices_of([], 8) == []


def test_a_large_file_is_cut_for_all_workers() -> None:
    found = slices_of([plan_of(0, [(True, 1_000, 40 * MIB)])], 4)
    assert [part[1:] for part in offsets(found, 0)] == [
        (0, 250), (250, 500), (500, 750), (750, 1_000),
    ]  # fmt: skip
    small = slices_of([plan_of(0, [(True, 1_000, SLICE_BYTES_MIN)])], 4)
    assert len(small) == 1
