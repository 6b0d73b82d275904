"""Records as every reader of a table or a topic must see them, and how two views are compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tests.integration.harness.clients import Sent

Headers = tuple[tuple[str, bytes | None], ...]


class TableRow(NamedTuple):
    """One record. Ordered by partition and offset."""

    partition: int
    offset: int
    timestamp_us: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def row_of_sent(record: Sent, offset: int) -> TableRow:
    """What a record must be that was sent with a timestamp and acknowledged at an offset."""
    assert record.timestamp_ms is not None
    return TableRow(
        record.partition,
        offset,
        record.timestamp_ms * 1000,
        record.key,
        record.value,
        tuple(record.headers),
    )


def row_of_pairs(
    partition: int, offset: int, timestamp_us: int, key: Any, value: Any, headers: Iterable[Any]
) -> TableRow:
    """A row whose headers are pairs, and whose bytes may be of any kind."""
    pairs = tuple((str(name), _bytes(content)) for name, content in headers)
    return TableRow(partition, offset, timestamp_us, _bytes(key), _bytes(value), pairs)


def _bytes(content: Any) -> bytes | None:
    return None if content is None else bytes(content)


def by_place(row: TableRow) -> tuple[int, int]:
    """The order in which rows are compared."""
    return row.partition, row.offset


def assert_same(seen: Iterable[TableRow], expected: Sequence[TableRow]) -> None:
    """Fail with the first difference: a full one of thousands of rows would tell less."""
    found = sorted(seen, key=by_place)
    wanted = sorted(expected, key=by_place)
    for got, due in zip(found, wanted, strict=False):
        assert got == due
    places, due_places = set(map(by_place, found)), set(map(by_place, wanted))
    assert len(found) == len(wanted), (
        f"{len(found)} rows, not {len(wanted)}; missing {sorted(due_places - places)[:5]}, "
        f"strange {sorted(places - due_places)[:5]}"
    )
