"""Open batches are grouped by size, none is lost, and none is opened before it is asked for."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from towpath.records.batch_groups import grouped
from towpath.records.build import NewRecord, build_batch
from towpath.records.open_batch import OpenBatch, open_batch


def opened(sizes_bytes: list[int], log: list[int] | None = None) -> Iterator[OpenBatch]:
    """Batches of one record each with values of these sizes."""
    for number, size_bytes in enumerate(sizes_bytes):
        if log is not None:
            log.append(number)
        yield open_batch(build_batch([NewRecord(bytes(size_bytes))]), number)


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 100), st.integers(0, 20))
def test_a_group_ends_with_the_batch_that_fills_it(
    sizes_bytes: list[int], group_bytes: int, row_bytes: int
) -> None:
    groups = [list(group) for group in grouped(opened(sizes_bytes), group_bytes, row_bytes)]
    in_order = [batch.base_offset for group in groups for batch in group]
    assert in_order == list(range(len(sizes_bytes)))

    def size(batches: list[OpenBatch]) -> int:
        return sum(len(batch.payload) + row_bytes for batch in batches)

    assert all(size(group[:-1]) < group_bytes for group in groups)
    assert all(size(group) >= group_bytes for group in groups[:-1])


def test_nothing_is_opened_before_its_turn() -> None:
    log: list[int] = []
    groups = grouped(opened([100, 100, 100], log), 150)
    first = next(groups)
    assert log == [0]
    assert [batch.base_offset for batch in first] == [0, 1]
    assert log == [0, 1]
