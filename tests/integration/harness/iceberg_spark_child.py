"""A Spark session with Iceberg's own runtime, in a process of its own: commands in, answers out.

A command is a line of JSON on stdin; the answer is a line of JSON on what was stdout at the start.
Rows go through a file, as pickled tuples of plain values. See `iceberg_spark.py`.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession


def main() -> None:
    """Start the session that the first line describes, then answer one line after the other."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What the JVM and Spark say goes to the log.
    builder = SparkSession.builder.master("local[2]")
    for name, value in json.loads(sys.stdin.readline()).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        try:
            answer = _act(session, **json.loads(line))
        except Exception:  # noqa: BLE001 - whatever it is, the test shows it.
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)
    session.stop()


def _act(session: SparkSession, do: str, **arguments: Any) -> dict[str, Any]:
    actions: dict[str, Callable[..., dict[str, Any]]] = {
        "query": _query,
        "stream": _stream,
        "drain": _drain,
        "stop": _stop,
    }
    return actions[do](session, **arguments)


def _query(session: SparkSession, sql: str, conf: dict[str, str], out: str) -> dict[str, Any]:
    for name, value in conf.items():
        session.conf.set(name, value)
    frame = session.sql(sql)
    _save(frame, out)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return {"columnar": "ColumnarToRow" in plan}


def _stream(session: SparkSession, table: str, name: str) -> dict[str, Any]:
    """Begin to read a table as a stream; what comes is kept under `name`."""
    stream = session.readStream.format("iceberg").load(table)
    stream.writeStream.format("memory").queryName(name).start()
    return {}


def _drain(session: SparkSession, name: str, columns: str, out: str) -> dict[str, Any]:
    """Let the stream read everything that is there, then give all rows since its beginning."""
    (query,) = [query for query in session.streams.active if query.name == name]
    query.processAllAvailable()
    _save(session.sql(f"SELECT {columns} FROM {name}"), out)
    return {"batches": len(query.recentProgress)}


def _stop(session: SparkSession, name: str) -> dict[str, Any]:
    (query,) = [query for query in session.streams.active if query.name == name]
    query.stop()
    return {}


def _save(frame: DataFrame, out: str) -> None:
    with open(out, "wb") as file:
        pickle.dump([_plain(row) for row in frame.collect()], file)


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Row | list | tuple):
        return tuple(_plain(part) for part in value)
    return value


if __name__ == "__main__":
    main()
