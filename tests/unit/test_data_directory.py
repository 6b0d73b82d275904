"""Data directories that earlier releases wrote open in this one, and every record is there.

They were made by `towpath up`, five records with keys and headers in partition 0 of `kept`, the
numbers 1 to 100 in one lz4 batch in partition 1, and a topic that was deleted again. In that of
0.3.0 all records are in Parquet files and in a table.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from tests.unit.log_helpers import offsets_and_values

from towpath.log.interface import Bounds
from towpath.log.object.log import ObjectLog
from towpath.log.object.settings import ObjectLogSettings
from towpath.metadata.sqlite.store import SqliteStore
from towpath.objects.fs import FsObjectStore
from towpath.observe.metrics import Metrics
from towpath.runtime import inline_runtime
from towpath.topics.catalog import TopicCatalog
from towpath.topics.effective import TopicDefaults

ARCHIVES = sorted((Path(__file__).parents[1] / "fixtures").glob("data-dir-*.tar.gz"))
ALL = 1 << 30


def test_there_is_a_directory_of_an_earlier_release() -> None:
    assert ARCHIVES


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
async def test_the_directory_of_an_earlier_release_opens(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    runtime = inline_runtime()
    store = await SqliteStore.open(tmp_path / "metadata.sqlite", runtime)
    objects = FsObjectStore(str(tmp_path / "objects"), runtime)
    topics = TopicCatalog(store, runtime, TopicDefaults(), lambda: [1])
    await topics.start()
    log = ObjectLog(store, objects, runtime, ObjectLogSettings(), Metrics())
    try:
        assert [topic.name for topic in topics.all()] == ["kept"]
        kept = topics.get("kept")
        assert kept is not None
        assert (kept.partitions, dict(kept.overrides)) == (2, {"retention.ms": "-1"})
        parts = [kept.stream(0), kept.stream(1)]
        assert await log.bounds(parts) == [Bounds(0, 5), Bounds(0, 100)]
        first, second = [await log.read(part, 0, ALL, min_one=True) for part in parts]
        assert offsets_and_values(first.buffers) == [(n, b"value-%d" % n) for n in range(5)]
        assert offsets_and_values(second.buffers) == [(n, b"%d" % (n + 1)) for n in range(100)]
    finally:
        await log.close()
        await topics.close()
        await objects.close()
        await store.close()
