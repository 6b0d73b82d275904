"""A process with a plain Spark session, as a user starts one: it calls functions that tests name.

Commands and answers are pickled, each after its length, over stdin and what was stdout at the
start. See `user_spark.py`.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import traceback
from typing import Any, BinaryIO

from pyspark.sql import SparkSession

from pyspark_towpath import prepare

LENGTH_BYTES = 8


def send(pipe: BinaryIO, value: Any) -> None:
    """Write one message."""
    data = pickle.dumps(value)
    pipe.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
    pipe.flush()


def receive(pipe: BinaryIO) -> Any:
    """Read one message; None at the end."""
    head = pipe.read(LENGTH_BYTES)
    return pickle.loads(pipe.read(int.from_bytes(head, "big"))) if head else None


def main() -> None:
    """Start the session that the first message describes, then call one function after the other
    with it."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What the JVM and Spark say goes to the log.
    commands = sys.stdin.buffer
    prepare()
    builder = SparkSession.builder.master("local[2]")
    for name, value in receive(commands).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    while (command := receive(commands)) is not None:
        module, function, arguments = command
        try:
            answer = getattr(importlib.import_module(module), function)(session, **arguments)
        except Exception:  # noqa: BLE001 - whatever it is, the test shows it.
            send(answers, (False, traceback.format_exc()))
        else:
            send(answers, (True, answer))
    session.stop()


if __name__ == "__main__":
    main()
