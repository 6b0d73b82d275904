"""Spark SQL with Iceberg's own runtime on the same catalog: nothing of Towpath runs in it."""

from __future__ import annotations

import json
import os
import pickle
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.harness.iceberg_jars import iceberg_jars
from tests.integration.harness.table_rows import TableRow, row_of_pairs

from towpath.lakehouse.java import find_java

CHILD = Path(__file__).with_name("iceberg_spark_child.py")
ANSWER_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 60.0
VECTORIZATION = "spark.sql.iceberg.vectorization.enabled"
PLAIN_COLUMNS = "`partition`, `offset`, unix_micros(`timestamp`), `key`, `value`"
COLUMNS = f"{PLAIN_COLUMNS}, `headers`"


class IcebergSpark:
    """One session in its own process. `start` does not wait for it, the first question does."""

    def __init__(self, directory: Path, data_dir: Path) -> None:
        self._directory = directory
        self._data_dir = data_dir
        self._answers = 0
        self._process: subprocess.Popen[str] | None = None
        self.log_file = directory / "iceberg-spark.log"
        self.was_columnar = False
        """Whether the last query read whole column vectors."""

    def start(self) -> None:
        """Start the process."""
        java = find_java(self._directory / "java")
        environment = {**os.environ, "JAVA_HOME": str(java.home), "SPARK_LOCAL_IP": "127.0.0.1"}
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self._directory,
                env=environment,
            )
        self._say(self._session())

    def rows(
        self,
        table: str,
        *,
        vectorized: bool = True,
        headers: bool = True,
        snapshot_id: int | None = None,
        where: str = "true",
    ) -> list[TableRow]:
        """The rows of a table, now or at a snapshot. Column vectors have no place for headers:
        only without them is the vectorized reader used."""
        version = "" if snapshot_id is None else f"VERSION AS OF {snapshot_id}"
        columns = COLUMNS if headers else PLAIN_COLUMNS
        found = self.query(
            f"SELECT {columns} FROM {self.name_of(table)} {version} WHERE {where}",
            {VECTORIZATION: str(vectorized).lower()},
        )
        return [_row(row) for row in found]

    def query(self, sql: str, conf: dict[str, str] | None = None) -> list[tuple[Any, ...]]:
        """The rows of any query."""
        answer, found = self._ask_rows(do="query", sql=sql, conf=conf or {})
        self.was_columnar = answer["columnar"]
        return found

    def start_stream(self, table: str, name: str) -> None:
        """Begin to read a table as a stream, from its first snapshot on."""
        self._ask(do="stream", table=self.name_of(table), name=name)

    def drain(self, name: str) -> list[TableRow]:
        """Every row that a stream has given since its beginning, once it has read all there is."""
        _, found = self._ask_rows(do="drain", name=name, columns=COLUMNS)
        return [_row(row) for row in found]

    def stop_stream(self, name: str) -> None:
        """End a stream."""
        self._ask(do="stop", name=name)

    def stop(self) -> None:
        """End the session and its process."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(STOP_TIMEOUT_S)
        finally:
            self._process.kill()

    @staticmethod
    def name_of(table: str) -> str:
        """A topic's table in this session."""
        return f"towpath.towpath.`{table}`"

    def _session(self) -> dict[str, str]:
        catalog = "spark.sql.catalog.towpath"
        return {
            "spark.jars": ",".join(map(str, iceberg_jars())),
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            f"{catalog}.uri": f"jdbc:sqlite:{self._data_dir / 'catalog.sqlite'}",
            f"{catalog}.warehouse": f"file://{self._data_dir}/objects/towpath/iceberg",
            # Every query shall see the table as it is now.
            f"{catalog}.cache-enabled": "false",
        }

    def _ask_rows(self, **command: Any) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
        self._answers += 1
        out = self._directory / f"rows-{self._answers}.pickle"
        answer = self._ask(**command, out=str(out))
        found: list[tuple[Any, ...]] = pickle.loads(out.read_bytes())
        out.unlink()
        return answer, found

    def _ask(self, **command: Any) -> dict[str, Any]:
        self._say(command)
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_TIMEOUT_S)
        line = self._process.stdout.readline() if ready else ""
        assert line, f"Spark gave no answer:\n{self.log_file.read_text()[-8000:]}"
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer

    def _say(self, command: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()


def _row(row: tuple[Any, ...]) -> TableRow:
    partition, offset, timestamp_us, key, value, *headers = row
    return row_of_pairs(partition, offset, timestamp_us, key, value, headers[0] if headers else ())
