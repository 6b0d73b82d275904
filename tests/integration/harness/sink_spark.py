"""Spark that writes to topics: a driver in its own process, which tests may kill."""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.integration.harness.process_tree import descendants, wait_until_gone
from tests.integration.harness.towpath_process import REPOSITORY
from tests.integration.harness.waiting import wait_until

from towpath.lakehouse.java import find_java

CHILD = Path(__file__).with_name("sink_spark_child.py")
ANSWER_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 60.0
LOOK_INTERVAL_S = 0.2
STOPPED = "T"
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.shuffle.partitions": "2",
}


class SparkFailed(AssertionError):
    """What was asked of Spark failed; the message is its trace."""


class SinkSpark:
    """One session in its own process. `start` does not wait for it, the first command does. With
    one core its tasks run one after the other."""

    def __init__(
        self, directory: Path, env: Mapping[str, str] | None = None, *, cores: int = 2
    ) -> None:
        self._directory = directory
        self._cores = cores
        self._env = dict(env or {})
        self._files = 0
        self._process: subprocess.Popen[str] | None = None
        self.log_file = directory / "sink-spark.log"

    def start(self) -> SinkSpark:
        """Start the process."""
        java = find_java(self._directory / "java")
        path = os.pathsep.join([str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")])
        environment = {
            **os.environ,
            "JAVA_HOME": str(java.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": path,
            **self._env,
        }
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self._directory,
                env=environment,
                start_new_session=True,
            )
        self._say({**CONF, "spark.master": f"local[{self._cores}]"})
        return self

    def write(
        self,
        rows: Sequence[tuple[Any, ...]],
        schema: str,
        options: Mapping[str, str],
        *,
        tasks: int = 2,
        mode: str = "append",
    ) -> None:
        """Write rows to a topic. Raises SparkFailed."""
        self._files += 1
        file = self._directory / f"rows-{os.getpid()}-{self._files}.pickle"
        file.write_bytes(pickle.dumps([tuple(row) for row in rows]))
        self._say(
            {
                "do": "write",
                "rows": str(file),
                "schema": schema,
                "tasks": tasks,
                "options": dict(options),
                "mode": mode,
            }
        )
        self._answer()

    def stream(
        self,
        lines: Path,
        checkpoint: Path | None,
        options: Mapping[str, str],
        *,
        output_mode: str = "append",
    ) -> dict[str, Any]:
        """Write every line of every file that is new; what the query says of itself."""
        self.begin_stream(lines, checkpoint, options, output_mode=output_mode)
        return self._answer()

    def begin_stream(
        self,
        lines: Path,
        checkpoint: Path | None,
        options: Mapping[str, str],
        *,
        output_mode: str = "append",
    ) -> None:
        """The same without waiting for it."""
        self._say(
            {
                "do": "stream",
                "directory": str(lines),
                "checkpoint": None if checkpoint is None else str(checkpoint),
                "options": dict(options),
                "output_mode": output_mode,
            }
        )

    def wait_until_stopped(self) -> None:
        """Wait until one of its processes has stopped itself at a fault point."""
        wait_until(
            self._is_stopped,
            "a process at its fault point",
            timeout_s=ANSWER_TIMEOUT_S,
            interval_s=LOOK_INTERVAL_S,
        )

    def kill(self) -> None:
        """SIGKILL the driver and everything that it has started, and wait until it is gone."""
        if self._process is None:
            return
        pids = [*descendants(self._process.pid), self._process.pid]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait(STOP_TIMEOUT_S)
        wait_until_gone(pids)

    def stop(self) -> None:
        """End the session and its process."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(STOP_TIMEOUT_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.kill()

    def _is_stopped(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log_tail()
        return any(_state(pid) == STOPPED for pid in descendants(self._process.pid))

    def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_TIMEOUT_S)
        line = self._process.stdout.readline() if ready else ""
        assert line, f"Spark gave no answer:\n{self._log_tail()}"
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise SparkFailed(answer["error"])
        return answer

    def _say(self, command: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def _log_tail(self) -> str:
        return self.log_file.read_text(errors="replace")[-8000:]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
