"""One Spark for all rounds: a driver that serves Spark Connect, and an executor process of its own.

A compactor process costs little with it, because nothing of Spark starts anew. Sessions share the
executor's Python workers; a Connect server would start others for each of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.faults.processes import saga_worker
from tests.integration.harness.ports import free_ports
from tests.integration.harness.process_tree import descendants, is_alive, wait_until_gone
from tests.integration.harness.waiting import wait_until

HOST = "127.0.0.1"
START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 30.0
EXECUTOR_TIMEOUT_S = 120.0
REPOSITORY = Path(__file__).resolve().parents[3]
PYTHON_PATH = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "src")])
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms32m -XX:-UsePerfData"
LOG_FILE = "spark.log"


class SagaSpark:
    """Spark for the module's compactors; `stop` ends every process of it."""

    def __init__(self, directory: Path) -> None:
        self._port = free_ports()
        self.remote = f"sc://{HOST}:{self._port}"
        self.strike = directory / "strike"
        """A Python worker that finds this file stops itself, and removes it."""
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None

    def spawn(self) -> None:
        """Start it without waiting."""
        path = {"PYTHONPATH": PYTHON_PATH, "PYTHONUNBUFFERED": "1"}
        with (self._directory / LOG_FILE).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(self._directory), str(self._port)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **path},
                cwd=REPOSITORY,
                text=True,
            )

    def wait_ready(self) -> None:
        """Wait until its executor works."""
        wait_until(self._is_ready, "Spark", timeout_s=START_TIMEOUT_S)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        return (self._directory / "ready").exists()

    def stop(self) -> None:
        """End it, and whatever of it does not end by itself."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        processes = [self._process.pid, *descendants(self._process.pid)]
        for pid in processes:
            _signal(pid, signal.SIGCONT)
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
            wait_until_gone(processes)
        finally:
            for pid in processes:
                _signal(pid, signal.SIGKILL)
            self._process.wait()

    def log(self) -> str:
        """What Spark said."""
        return (self._directory / LOG_FILE).read_text(errors="replace")[-16_384:]

    def executor(self) -> int:
        """The executor's JVM; waits for one if the last was killed."""

        def found() -> list[int]:
            return [pid for pid in self._processes() if "CoarseGrained" in _command(pid)]

        return wait_until(found, "an executor", timeout_s=EXECUTOR_TIMEOUT_S)[0]

    def stopped_worker(self) -> int:
        """The Python worker that has stopped itself; waits for it."""

        def found() -> list[int]:
            return [pid for pid in self._processes() if is_alive(pid) and is_stopped(pid)]

        return wait_until(found, "a worker to stop", timeout_s=EXECUTOR_TIMEOUT_S)[0]

    def _processes(self) -> list[int]:
        assert self._process is not None
        return descendants(self._process.pid)


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped the process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def serve(directory: Path, port: str) -> None:
    """In the process of its own: run Spark until the standard input ends."""
    from pyspark.sql import SparkSession

    from towpath.lakehouse.java import find_java
    from towpath.lakehouse.runners.spark_conf import LIMITS

    os.environ["JAVA_HOME"] = str(find_java(directory / "java").home)
    os.environ["SPARK_HOME"] = str(_spark_home(directory / "home"))
    os.environ["SPARK_LOCAL_IP"] = HOST
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {
        **LIMITS,
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": HOST,
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.driver.host": HOST,
        "spark.driver.memory": "600m",
        "spark.executor.extraJavaOptions": QUICK_START,
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": PYTHON_PATH,
        f"spark.executorEnv.{saga_worker.VARIABLE}": str(directory / "strike"),
        "spark.local.dir": str(directory / "local"),
        "spark.master": "local-cluster[1,1,512]",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.python.daemon.module": saga_worker.MODULE,
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    assert session.sparkContext.parallelize([1, 2]).sum() == 3
    (directory / "ready").touch()
    sys.stdin.read()
    session.stop()


def _spark_home(home: Path) -> Path:
    """pyspark's directory, by links: this kind of cluster writes into the home of Spark."""
    import pyspark

    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    return home


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2])
