"""A Spark session that writes topics, in a process of its own: commands in, answers out.

A command is a line of JSON on stdin; the answer is a line of JSON on what was stdout at the start.
See `sink_spark.py`.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pyspark_towpath import prepare


def main() -> None:
    """Start the session that the first line describes, then answer one line after the other."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What the JVM and Spark say goes to the log.
    prepare()
    builder = SparkSession.builder
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
    actions: dict[str, Callable[..., dict[str, Any]]] = {"write": _write, "stream": _stream}
    return actions[do](session, **arguments)


def _write(
    session: SparkSession,
    rows: str,
    schema: str,
    tasks: int,
    options: dict[str, str],
    mode: str,
) -> dict[str, Any]:
    """Write pickled rows in some tasks, in their order."""
    frame: DataFrame = session.createDataFrame(
        session.sparkContext.parallelize(pickle.loads(Path(rows).read_bytes()), tasks), schema
    )
    frame.write.format("towpath").mode(mode).options(**options).save()
    return {}


def _stream(
    session: SparkSession,
    directory: str,
    checkpoint: str | None,
    options: dict[str, str],
    output_mode: str,
) -> dict[str, Any]:
    """Write the lines of every file that is there and was not yet, a file per epoch."""
    lines = session.readStream.option("maxFilesPerTrigger", 1).text(directory)
    stream = lines.writeStream.format("towpath").options(**options).outputMode(output_mode)
    if checkpoint is not None:
        stream = stream.option("checkpointLocation", checkpoint)
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination()
    return {"id": str(query.id), "epochs": [each["batchId"] for each in query.recentProgress]}


if __name__ == "__main__":
    main()
