"""The pipeline on a real Spark standalone cluster that loses a worker, and over Spark Connect."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from tests.integration.conftest import PEER
from tests.integration.harness.admin import create_topic
from tests.integration.harness.clients import produce_all, producer, varied_records
from tests.integration.harness.compacted import is_in_parquet
from tests.integration.harness.spark_cluster import EXECUTOR_CONF, ConnectServer, SparkCluster
from tests.integration.harness.table_engines import consume_with_confluent, read_with_pyiceberg
from tests.integration.harness.table_rows import TableRow, assert_same, row_of_sent
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.waiting import wait_until

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(PEER == "kafka", reason="a test of Towpath alone"),
]

PARTITIONS = 4
RECORDS = 2_000
PATIENCE_S = 240.0


@dataclass
class Scene:
    """A broker without a compactor of its own."""

    server: TowpathProcess

    def fill(self, topic: str) -> list[TableRow]:
        """Some batches per partition, so that every task has something to do."""
        create_topic(self.server.bootstrap, topic, partitions=PARTITIONS)
        rows: list[TableRow] = []
        for partition in range(PARTITIONS):
            records = varied_records(RECORDS, partition=partition, tag=topic)
            offsets = produce_all(producer(self.server.bootstrap), topic, records)
            rows += [row_of_sent(*sent) for sent in zip(records, offsets, strict=True)]
        return rows

    def compactor(self, *settings: str) -> subprocess.Popen[str]:
        """A compactor that runs one round."""
        command = [sys.executable, "-m", "towpath", "compactor", "--once", "--output", "json"]
        command += ["--data-dir", str(self.server.data_dir)]
        for setting in (*settings, "spark.ui.port=0", "compaction.http.port=0"):
            command += ["--set", setting]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def check(self, topic: str, expected: list[TableRow]) -> None:
        assert is_in_parquet(self.server.data_dir, topic)
        seen = consume_with_confluent(self.server.bootstrap, topic, PARTITIONS, len(expected))
        assert_same(seen, expected)
        catalog = load_catalog(
            "towpath", type="sql", uri=f"sqlite:///{self.server.data_dir}/catalog.sqlite"
        )
        assert_same(read_with_pyiceberg(catalog.load_table(("towpath", topic))), expected)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    server = TowpathProcess(tmp_path_factory.mktemp("pipeline"))
    try:
        server.start()
        yield Scene(server)
    finally:
        server.kill()


def finished(compactor: subprocess.Popen[str], topic: str) -> None:
    """The round must have done all of it."""
    try:
        answer, _ = compactor.communicate(timeout=PATIENCE_S)
    finally:
        compactor.kill()
    assert compactor.returncode == 0
    summary = json.loads(answer)
    assert summary["failures"] == []
    (found,) = summary["topics"]
    assert (found["topic"], found["records"]) == (topic, PARTITIONS * RECORDS)


def test_a_cluster_that_loses_a_worker_makes_the_table(scene: Scene, tmp_path: Path) -> None:
    expected = scene.fill("clustered")
    cluster = SparkCluster(tmp_path)
    cluster.start()
    try:
        compactor = scene.compactor(
            f"spark.master={cluster.master_url}", f"spark.conf={json.dumps(EXECUTOR_CONF)}"
        )
        # Executors have Python workers as soon as they run a task of the job.
        wait_until(lambda: len(cluster.executors()) >= 4, "tasks", timeout_s=PATIENCE_S)
        cluster.kill_worker(0)
        finished(compactor, "clustered")
    finally:
        cluster.stop()
    scene.check("clustered", expected)


def test_spark_connect_makes_the_table(scene: Scene, tmp_path: Path) -> None:
    expected = scene.fill("connected")
    spark = ConnectServer(tmp_path)
    spark.start()
    try:
        finished(scene.compactor(f"spark.remote={spark.url}"), "connected")
    finally:
        spark.stop()
    scene.check("connected", expected)
