"""The sink as Spark drives it, without a Spark: what it refuses, and what becomes of what it puts
when something fails."""

from __future__ import annotations

import asyncio
import json
import pickle
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_towpath.batch_writer import TopicWriter
from pyspark_towpath.names import BadOption
from pyspark_towpath.sink_columns import check_columns
from pyspark_towpath.sink_options import SinkOptions
from pyspark_towpath.source import TowpathSource
from pyspark_towpath.stream_writer import TopicStreamWriter
from towpath.config.settings import Settings
from towpath.errors import TowpathError
from towpath.metadata.keys import topics
from towpath.metadata.sqlite.store import SqliteStore
from towpath.metadata.store import OutcomeUnknown
from towpath.objects.fs_files import make_root
from towpath.records import compression
from towpath.runtime import inline_runtime
from towpath.writing import settle as settle_module
from towpath.writing.driver import TopicDriver
from towpath.writing.errors import WriteFailed, WriteRefused, WriteUnknown

VALUE = StructType().add("value", "string")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory with topic `orders` of two partitions."""
    path = tmp_path / "data"
    make_root(str(path / "objects"))

    async def create() -> None:
        runtime = inline_runtime()
        store = await SqliteStore.open(path / "metadata.sqlite", runtime)
        for number, (name, config) in enumerate(
            {"orders": {}, "packed": {"compression.type": "zstd"}}.items(), start=1
        ):
            record = topics.TopicRecord(uuid.uuid4(), number, 2, config)
            await store.put(topics.topic(name), record.encode())
        await store.close()

    asyncio.run(create())
    return path


def options(data_dir: Path, **more: str) -> dict[str, str]:
    return {"data_dir": str(data_dir), "Topic": "orders", **more}


def objects_of(data_dir: Path) -> set[str]:
    return {path.name for path in data_dir.rglob("*.wo")}


def rows(*values: str) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"value": list(values)})])


def ends(data_dir: Path) -> int:
    """How many records the topic has."""

    async def count() -> int:
        store = await SqliteStore.open(data_dir / "metadata.sqlite", inline_runtime())
        tails = await store.tails([topics.stream_id(1, 0), topics.stream_id(1, 1)])
        await store.close()
        return sum(tail.offset_end for tail in tails)

    return asyncio.run(count())


def travelled(value: Any) -> Any:
    """As it arrives in another process."""
    return pickle.loads(pickle.dumps(value))


def test_a_batch_is_staged_by_tasks_and_committed_elsewhere(data_dir: Path) -> None:
    writer = TopicWriter(options(data_dir), VALUE)
    messages = [travelled(travelled(writer).write(rows("a", "b"))) for _ in range(3)]
    assert ends(data_dir) == 0
    assert len(objects_of(data_dir)) == 3
    travelled(writer).commit(messages)
    assert ends(data_dir) == 6
    assert len(objects_of(data_dir)) == 3


def test_a_batch_with_a_version_is_committed_once(data_dir: Path) -> None:
    once = options(data_dir, txnAppId="job", txnVersion="7")
    for _ in range(2):
        writer = TopicWriter(once, VALUE)
        writer.commit([writer.write(rows("a"))])
        assert ends(data_dir) == 1
        assert len(objects_of(data_dir)) == 1  # What was in vain is gone.


def test_an_epoch_is_committed_once_by_whichever_writer(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(json.dumps({"id": "q-1"}))
    chosen = options(data_dir, checkpointLocation=str(tmp_path))
    for epoch in (0, 0, 1):
        tasks = TopicStreamWriter(chosen, VALUE)
        messages: list[WriterCommitMessage | None] = [tasks.write(rows("a"))]
        TopicStreamWriter(chosen, VALUE).commit(messages, epoch)
    assert ends(data_dir) == 2
    (tmp_path / "metadata").write_text(json.dumps({"id": "q-2"}))
    new = TopicStreamWriter(chosen, VALUE)
    new.commit([new.write(rows("a"))], 0)
    assert ends(data_dir) == 3


def test_a_failed_task_takes_back_what_it_put(data_dir: Path) -> None:
    writer = TopicWriter(options(data_dir), VALUE)

    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows("a" * 40_000_000)
        assert len(objects_of(data_dir)) == 1
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        writer.write(broken())
    assert objects_of(data_dir) == set()


def test_an_abort_deletes_what_tasks_put_if_others_failed(data_dir: Path) -> None:
    writer = TopicWriter(options(data_dir), VALUE)
    message = writer.write(rows("a"))
    writer.abort([message, None])
    assert objects_of(data_dir) == set()


def test_an_abort_after_a_commit_deletes_nothing(data_dir: Path, tmp_path: Path) -> None:
    """Spark aborts what it could not commit, also when nobody knows whether it is committed."""
    (tmp_path / "metadata").write_text(json.dumps({"id": "q"}))
    batch = TopicWriter(options(data_dir), VALUE)
    stream = TopicStreamWriter(options(data_dir, checkpointLocation=str(tmp_path)), VALUE)
    first: list[WriterCommitMessage | None] = [batch.write(rows("a"))]
    second: list[WriterCommitMessage | None] = [stream.write(rows("b"))]
    batch.commit(first)
    stream.commit(second, 0)
    batch.abort(first)
    stream.abort(second, 0)
    assert len(objects_of(data_dir)) == 2


@pytest.mark.parametrize(
    ("failure", "left"), [(WriteUnknown("?"), 1), (WriteFailed("no"), 0), (WriteRefused("no"), 0)]
)
def test_a_failed_commit_deletes_what_cannot_become_visible(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, left: int
) -> None:
    async def fail(*_: Any) -> None:
        raise failure

    writer = TopicWriter(options(data_dir), VALUE)
    message = writer.write(rows("a"))
    monkeypatch.setattr(settle_module, "commit", fail)
    with pytest.raises(type(failure)):
        writer.commit([message])
    writer.abort([message])
    assert len(objects_of(data_dir)) == left


def test_a_store_that_fails_to_close_undoes_nothing(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SqliteStore.close

    async def close(store: SqliteStore) -> None:
        await real(store)
        raise OutcomeUnknown("while closing")

    writer = TopicWriter(options(data_dir), VALUE)
    message = writer.write(rows("a"))
    monkeypatch.setattr(SqliteStore, "close", close)
    writer.commit([message])
    monkeypatch.undo()
    assert ends(data_dir) == 1
    assert len(objects_of(data_dir)) == 1


def test_a_missing_message_is_no_commit(data_dir: Path) -> None:
    writer = TopicWriter(options(data_dir), VALUE)
    message = writer.write(rows("a"))
    with pytest.raises(WriteFailed, match="1 tasks have not told"):
        writer.commit([message, None])
    assert ends(data_dir) == 0


def test_compression_is_the_write_s_or_the_topic_s_or_lz4(data_dir: Path) -> None:
    driver = TopicDriver(Settings(data_dir=data_dir))
    assert driver.begin("orders").codec == compression.LZ4
    assert driver.begin("packed").codec == compression.ZSTD
    assert driver.begin("packed", "none").codec == compression.NONE
    with pytest.raises(WriteRefused, match="there is no compression 'brotli'"):
        driver.begin("orders", "brotli")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"metadata_url": "memory://"}, "one broker's own"),
        ({"objects_url": "memory://"}, "one broker's own"),
        ({}, "there is no Towpath here"),
    ],
)
def test_a_system_that_nobody_can_reach(
    tmp_path: Path, settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(WriteRefused, match=reason):
        TopicDriver(Settings(data_dir=tmp_path, **settings))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"Topic": ""}, "option 'topic' is missing"),
        ({"Topic": "none"}, "there is no topic 'none': create it first"),
        ({"compresion": "lz4"}, "there is no option 'compresion'"),
        ({"path": "orders"}, "there is no option 'path'"),
        ({"txnAppId": "a"}, "belong together"),
        ({"txnVersion": "1"}, "belong together"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "belong together"),
        ({"data_dir": "/nowhere"}, "there is no Towpath here"),
    ],
)
def test_options_of_a_batch_that_are_refused(
    data_dir: Path, more: dict[str, str], reason: str
) -> None:
    with pytest.raises(TowpathError, match=reason):
        TopicWriter({**options(data_dir), **more}, VALUE)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, "option 'checkpointLocation' is missing"),
        ({"checkpointLocation": "/nowhere"}, "cannot be read from the checkpoint /nowhere"),
        ({"txnAppId": "a", "txnVersion": "1"}, "is for batches"),
    ],
)
def test_options_of_a_stream_that_are_refused(
    data_dir: Path, more: dict[str, str], reason: str
) -> None:
    with pytest.raises(BadOption, match=reason):
        TopicStreamWriter(options(data_dir, **more), VALUE)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"id": 1}', '{"id": ""}'])
def test_checkpoints_without_an_id(tmp_path: Path, content: str) -> None:
    (tmp_path / "metadata").write_text(content)
    for location in (str(tmp_path), tmp_path.as_uri(), f"file:{tmp_path}"):
        with pytest.raises(BadOption, match=r"id"):
            SinkOptions.parse({"checkpointLocation": location}).query()


def test_the_query_is_named_by_its_checkpoint_or_by_choice(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id": "abc"}')
    for location in (str(tmp_path), f"{tmp_path}/", tmp_path.as_uri(), f"file:{tmp_path}"):
        parsed = SinkOptions.parse({"checkpointlocation": location, "queryname": "mine"})
        assert parsed.query() == ("query:abc", False)
    assert SinkOptions.parse({"TXN_APP_ID": "abc"}).query() == ("app:abc", True)
    assert SinkOptions.parse({"txn-app-id": "a", "txnversion": "5"}).transaction() == ("app:a", 5)
    assert SinkOptions.parse({}).transaction() is None


def test_nothing_is_overwritten() -> None:
    source = TowpathSource({})
    with pytest.raises(BadOption, match="only ever appended"):
        source.writer(VALUE, True)
    with pytest.raises(BadOption, match="only ever appended"):
        source.streamWriter(VALUE, True)


HEADER = StructType().add("key", StringType()).add("value", BinaryType())


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"value": StringType(), "KEY": BinaryType(), "topic": StringType()}, None),
        ({"value": BinaryType(), "headers": ArrayType(HEADER), "partition": IntegerType()}, None),
        ({"Value": BinaryType(), "timestamp": TimestampType()}, None),
        ({"key": StringType()}, "column 'value' is missing"),
        ({"value": LongType()}, "column 'value' is bigint, not binary or string"),
        ({"value": StringType(), "VALUE": StringType()}, "is there twice"),
        ({"value": StringType(), "offset": LongType()}, "a topic has no column 'offset'"),
        ({"value": StringType(), "partition": LongType()}, "'partition' is bigint, not int"),
        ({"value": StringType(), "timestamp": TimestampNTZType()}, "timestamp_ntz, not timestamp"),
        ({"value": StringType(), "headers": StringType()}, "'headers' is string, not array"),
        (
            {"value": StringType(), "headers": ArrayType(StructType().add("key", "string"))},
            "not array<struct<key:string,value:binary>>",
        ),
    ],
)
def test_columns_are_checked_before_anything_runs(
    columns: dict[str, DataType], reason: str | None
) -> None:
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind)
    if reason is None:
        check_columns(schema)
        return
    with pytest.raises(WriteRefused, match=reason):
        check_columns(schema)
