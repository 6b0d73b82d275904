"""A user's own Spark session, in a process of its own. It finds the `towpath` source by itself."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.harness.process_tree import descendants, wait_until_gone
from tests.integration.harness.spark_child import receive, send
from tests.integration.harness.towpath_process import REPOSITORY

from towpath.lakehouse.java import find_java

ANSWER_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 60.0


class SparkFailed(Exception):
    """What a function raised in the session's process, as text."""


class UserSpark:
    """Calls functions of test modules with a session. They must be at the top of their modules."""

    def __init__(self, directory: Path, conf: dict[str, str] | None = None) -> None:
        self._directory = directory
        self._conf = {
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            **(conf or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.log_file = directory / "user-spark.log"

    def start(self) -> None:
        """Start the process; the first call waits for it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        java = find_java(self._directory / "java")
        path = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])
        environment = {
            **os.environ,
            "JAVA_HOME": str(java.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": path,
            "PYSPARK_PYTHON": sys.executable,
        }
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.harness.spark_child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._directory,
                env=environment,
            )
        assert self._process.stdin is not None
        send(self._process.stdin, self._conf)  # type: ignore[arg-type]

    def call(self, function: Callable[..., Any], **arguments: Any) -> Any:
        """What `function(session, **arguments)` returns there. Raises SparkFailed."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        send(process.stdin, (function.__module__, function.__name__, arguments))  # type: ignore[arg-type]
        ready, _, _ = select.select([process.stdout], [], [], ANSWER_TIMEOUT_S)
        answer = receive(process.stdout) if ready else None  # type: ignore[arg-type]
        assert answer is not None, f"Spark gave no answer:\n{self.log_file.read_text()[-8000:]}"
        is_well, value = answer
        if not is_well:
            raise SparkFailed(value)
        return value

    def kill(self) -> None:
        """End the driver as a crash does; its JVM and its workers end with it."""
        assert self._process is not None
        others = descendants(self._process.pid)
        self._process.kill()
        self._process.wait()
        wait_until_gone(others)

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
