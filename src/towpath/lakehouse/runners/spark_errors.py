"""What Spark's exceptions say, in one line."""

from __future__ import annotations

import re

LINE_MAX_CHARS = 500
_JOB_ABORTED = "Job aborted due to stage failure"
_JAVA_EXCEPTION = re.compile(r"^: (.+)$", re.MULTILINE)


def one_line(error: BaseException) -> str:
    """The telling line of an exception of pyspark, py4j or gRPC, cut if it is long."""
    text = str(error)
    found = _JAVA_EXCEPTION.search(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = found[1] if found else next(iter(lines), type(error).__name__)
    return line[:LINE_MAX_CHARS]


def is_task_failure(error: BaseException) -> bool:
    """Whether Spark itself is well and only gave up on a task that failed too often."""
    return _JOB_ABORTED in str(error)
