"""The option `groupId`: when a stream's progress becomes the committed offsets of a group."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.unit.reading.helpers_data_dir import FIRST_MS, DataDir, Written

from pyspark_towpath import DefaultSource
from pyspark_towpath.names import BadOption
from towpath.groups.offsets import blocking
from towpath.groups.offsets.outside import GroupInUse
from towpath.groups.store import GroupStore
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys.offsets import CommittedOffset
from towpath.metadata.sqlite.store import SqliteStore
from towpath.metadata.store import StoreUnavailable
from towpath.runtime import inline_runtime

PARTITIONS = 2
GROUP = "spark"


@pytest.fixture(autouse=True)
def _keep_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def orders(tmp_path: Path) -> DataDir:
    made = DataDir(tmp_path / "data")
    write(made, 3)
    return made


def write(at: DataDir, count: int) -> None:
    """So many records for each partition."""
    batches = [Written(number, FIRST_MS, [b"x"] * count) for number in range(PARTITIONS)]
    at.write("orders", PARTITIONS, *batches)


def stream(at: DataDir, **options: Any) -> Any:
    given = {"topic": "orders", "data-dir": at.path, "groupId": GROUP, **options}
    made = DefaultSource({name: str(value) for name, value in given.items()})
    return made.streamReader(made.schema())


async def open_store(at: DataDir) -> SqliteStore:
    path = at.settings.metadata_path()
    assert path is not None
    return await SqliteStore.open(path, inline_runtime())


def committed(at: DataDir) -> dict[int, int]:
    """The group's offsets of the topic, from the store itself."""

    async def read() -> dict[int, int]:
        store = await open_store(at)
        try:
            rows = [await store.get(keys.offset(GROUP, "orders", n)) for n in range(PARTITIONS)]
        finally:
            await store.close()
        return {
            number: CommittedOffset.decode(row.value).offset
            for number, row in enumerate(rows)
            if row is not None
        }

    return asyncio.run(read())


def plan(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> None:
    """Spark plans a micro-batch, with offsets that it keeps as JSON."""
    reader.partitions(json.loads(json.dumps(start)), json.loads(json.dumps(end)))


def note(checkpoint: Path, part: str, number: int, *offsets: dict[str, Any]) -> None:
    """What Spark writes into its checkpoint."""
    (checkpoint / part).mkdir(parents=True, exist_ok=True)
    lines = ["v1", "{}", *(json.dumps(each) for each in offsets)]
    (checkpoint / part / str(number)).write_text("\n".join(lines))


def test_a_batch_counts_when_it_is_done(orders: DataDir) -> None:
    reader = stream(orders)
    start, end = reader.initialOffset(), reader.latestOffset()
    plan(reader, start, end)
    assert committed(orders) == {}
    assert reader.latestOffset() == end
    assert committed(orders) == {0: 3, 1: 3}
    write(orders, 2)
    later = reader.latestOffset()
    plan(reader, end, later)
    assert committed(orders) == {0: 3, 1: 3}
    reader.commit(later)
    assert committed(orders) == {0: 5, 1: 5}


def test_nothing_new_is_written_once(orders: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = stream(orders)
    start, end = reader.initialOffset(), reader.latestOffset()
    plan(reader, start, end)
    reader.latestOffset()
    monkeypatch.setattr(blocking, "OutsideCommits", None)
    reader.latestOffset()
    reader.commit(end)


def test_without_the_option_nothing_is_written(orders: DataDir) -> None:
    given = {"topic": "orders", "data-dir": str(orders.path)}
    made = DefaultSource(given)
    reader = made.streamReader(made.schema())
    start, end = reader.initialOffset(), reader.latestOffset()
    plan(reader, start, end)
    reader.latestOffset()
    reader.commit(end)
    reader.stop()
    assert committed(orders) == {}


def test_a_query_that_goes_on_is_not_taken_as_done(orders: DataDir) -> None:
    end = stream(orders).latestOffset()
    again = stream(orders)
    plan(again, end, end)  # Spark tells where the query goes on; that batch may not be done.
    again.latestOffset()
    assert committed(orders) == {}


def test_the_checkpoint_tells_what_is_done(orders: DataDir, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    reader = stream(orders, checkpointLocation=checkpoint)
    start, end = reader.initialOffset(), reader.latestOffset()
    note(checkpoint, "offsets", 0, end)
    plan(reader, start, end)
    reader.stop()
    assert committed(orders) == {}, "the query was stopped in the middle"
    note(checkpoint, "commits", 0)
    reader.stop()
    assert committed(orders) == {0: 3, 1: 3}


def test_a_restarted_query_catches_up(orders: DataDir, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    first = stream(orders).latestOffset()
    write(orders, 2)
    second = stream(orders).latestOffset()
    note(checkpoint, "offsets", 0, first)
    note(checkpoint, "commits", 0)
    note(checkpoint, "offsets", 1, second)
    (checkpoint / "commits" / ".0.crc").write_bytes(b"\0")
    stream(orders, checkpointLocation=checkpoint).latestOffset()
    assert committed(orders) == {0: 3, 1: 3}


def test_some_partitions(orders: DataDir) -> None:
    reader = stream(orders, partitions="1")
    plan(reader, reader.initialOffset(), reader.latestOffset())
    reader.latestOffset()
    assert committed(orders) == {1: 3}


def test_a_group_with_members_is_refused_at_once(orders: DataDir) -> None:
    from tests.unit.groups.offsets.helpers_offsets import classic_group

    from towpath.groups.kinds import KINDS
    from towpath.groups.store import NOTHING

    async def join() -> None:
        store = await open_store(orders)
        try:
            await GroupStore(store, KINDS).save(GROUP, NOTHING, classic_group(1, "m"), "w")
        finally:
            await store.close()

    reader = stream(orders)
    start, end = reader.initialOffset(), reader.latestOffset()
    plan(reader, start, end)
    asyncio.run(join())
    with pytest.raises(GroupInUse, match="'spark' is Stable with 1 member"):
        reader.latestOffset()
    with pytest.raises(GroupInUse):
        stream(orders).latestOffset()
    assert committed(orders) == {}


def test_a_store_that_fails_does_not_end_the_query(
    orders: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = stream(orders)
    start, end = reader.initialOffset(), reader.latestOffset()
    plan(reader, start, end)

    async def fail(*_: Any) -> None:
        raise StoreUnavailable("locked")

    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(blocking, "commit_outside", fail)
        reader.latestOffset()
    assert [line["log_level"] for line in logs] == ["warning"]
    reader.commit(end)
    assert committed(orders) == {0: 3, 1: 3}


@pytest.mark.parametrize("name", ["", "x" * 4_000])
def test_names_that_no_group_can_have(orders: DataDir, name: str) -> None:
    with pytest.raises(BadOption, match="'groupId' wants the name of a group"):
        stream(orders, groupId=name)


def test_batch_reads_have_no_group(orders: DataDir) -> None:
    made = DefaultSource({"topic": "orders", "data-dir": str(orders.path), "groupId": "g"})
    with pytest.raises(BadOption, match="'groupId' is for streams only"):
        made.reader(made.schema())
