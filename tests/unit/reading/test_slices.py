"""Plans are divided into slices of about the same size; nothing is lost and nothing doubled."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from towpath.lakehouse.plan import WalChunk
from towpath.log.object.stretches import DataFile
from towpath.reading.parts import FilePart, Part, PartitionPlan, WalPart
from towpath.reading.slices import (
    SLACK,
    SLICE_BYTES_MAX,
    SLICE_BYTES_MIN,
    Slice,
    slices_of,
    stored_bytes,
)

MIB = 1 << 20
ROUNDING_BYTES = 20
"""Sizes of pieces are whole bytes, and a slice here has a few pieces."""


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
    uncut_bytes = max([grain_bytes(part) for plan in plans for part in plan.parts], default=0)
    for each in found:
        size_bytes = sum(stored_bytes(part) for run in each.runs for part in run.parts)
        is_one = len(each.runs) == 1 and len(each.runs[0].parts) == 1
        # Only what lies at its two ends, and is not cut, can make a slice larger than its share.
        assert is_one or size_bytes <= SLICE_BYTES_MAX * (1 + 2 * SLACK) + uncut_bytes


def grain_bytes(part: Part) -> int:
    """What of a part stays together: files are cut between two offsets."""
    if isinstance(part, WalPart):
        return part.size_bytes
    return part.file.size_bytes // part.file.record_count + ROUNDING_BYTES


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


def sizes_of(found: list[Slice]) -> list[int]:
    return [sum(stored_bytes(part) for run in each.runs for part in run.parts) for each in found]


def test_workers_get_the_same_amount() -> None:
    """Four files for two workers: no third slice that one of them would read alone at the end."""
    files = [plan_of(number, [(True, 1_000, 27 * MIB + number)]) for number in range(4)]
    assert [len(each.runs) for each in slices_of(files, 2)] == [2, 2]
    tails = [plan_of(number, [(False, 10, MIB)] * 77) for number in range(2)]
    assert [size // MIB for size in sizes_of(slices_of(tails, 2))] == [77, 77]


def test_more_than_slices_hold_is_the_same_number_of_slices_for_each_worker() -> None:
    plans = [plan_of(number, [(True, 100_000, 90 * MIB)]) for number in range(7)]
    sizes = sizes_of(slices_of(plans, 3))
    assert len(sizes) == 6
    assert max(sizes) <= min(sizes) * (1 + SLACK) / (1 - SLACK) + 1
