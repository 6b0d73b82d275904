"""Waiting until a topic's records are in its table, by what the commands and the index tell."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.harness.towpath_process import REPOSITORY
from tests.integration.harness.waiting import wait_until

from towpath.log.object.entries import decode
from towpath.metadata.keys import streams, topics
from towpath.metadata.sqlite.read_only import read_sqlite
from towpath.metadata.store import KeyValue

COMPACTION_TIMEOUT_S = 180.0
COMMAND_TIMEOUT_S = 60.0
LOOK_INTERVAL_S = 0.2


def towpath_tables(data_dir: Path, *arguments: str) -> Any:
    """What `towpath tables ... --output json` says; a failure shows its stderr."""
    done = run_towpath("tables", *arguments, "--data-dir", str(data_dir), "--output", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_towpath(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    path = os.pathsep.join([str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "towpath", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=COMMAND_TIMEOUT_S,
    )


def wait_until_compacted(data_dir: Path, topic: str) -> None:
    """Wait until all that was acknowledged is in the table, and fetches are served from it."""

    def nothing_is_missing() -> bool:
        if not (data_dir / "catalog.sqlite").exists():
            return False
        found = {table["topic"]: table for table in towpath_tables(data_dir, "list")}
        return topic in found and found[topic]["lag_records"] == 0

    wait_until(
        nothing_is_missing,
        f"{topic} in its table",
        timeout_s=COMPACTION_TIMEOUT_S,
        interval_s=LOOK_INTERVAL_S,
    )
    wait_until(lambda: is_in_parquet(data_dir, topic), f"{topic} in Parquet files")


def is_in_parquet(data_dir: Path, topic: str) -> bool:
    """Whether the offset index names no WAL object any more."""

    def work(connection: sqlite3.Connection) -> bool:
        rows = _rows(connection, topics.topic(topic), topics.topic(topic) + "\0")
        record = topics.TopicRecord.decode(rows[0].value)
        for partition in range(record.partitions):
            stream = topics.stream_id(record.number, partition)
            found = _rows(connection, streams.index_prefix(stream), streams.index_end(stream))
            if any(decode(row).path for row in found):
                return False
        return True

    return read_sqlite(data_dir / "metadata.sqlite", work)


def _rows(connection: sqlite3.Connection, start: str, end: str) -> list[KeyValue]:
    query = "SELECT key, value, version FROM kv WHERE key >= ? AND key < ? ORDER BY key"
    return [KeyValue(*row) for row in connection.execute(query, (start, end)).fetchall()]
