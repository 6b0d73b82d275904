"""The JVM of a Spark driver, as a process of ours.

It ends when its standard input does: with `end`, or because this process is gone, however that
happened. Its Python workers end in the same way with the JVM.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import struct
import subprocess
import threading
import time
from pathlib import Path

from towpath.lakehouse.java import Java
from towpath.lakehouse.runners.runner import RunnerUnavailable
from towpath.lakehouse.runners.spark_conf import environment, spark_home, write_conf
from towpath.lakehouse.runners.spark_directory import SessionDirectory
from towpath.lakehouse.runners.spark_settings import SparkSettings

OUTPUT_FILE = "jvm.log"
OUTPUT_MAX_BYTES = 10 << 20
POLL_S = 0.02
ENDING_S = 1.0
SAID_MAX_BYTES = 4096


class SparkJvm:
    """A running JVM with Spark's gateway for Python. Not more than one thread at a time may use it,
    but `kill` may be called by any."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self._process = process
        self._output = output
        self.port = 0
        self.secret = ""

    @classmethod
    def start(
        cls,
        settings: SparkSettings,
        directory: SessionDirectory,
        java: Java,
        given_up: threading.Event,
    ) -> SparkJvm:
        """Start one and wait until its gateway answers. Raises RunnerUnavailable if it does not in
        time, or as soon as `given_up` is set."""
        properties = write_conf(settings, directory)
        connection = directory.path / "gateway"
        output = _trimmed(settings.work_dir / OUTPUT_FILE)
        environ = environment(settings, java)
        environ["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(connection)
        command: list[Path | str] = [spark_home() / "bin" / "spark-submit"]
        command += ["--properties-file", properties]
        if not settings.is_local:
            command.append("--load-spark-defaults")
        with output.open("ab") as out:
            # Workers look for modules in the current directory first: it must be an empty one.
            process = subprocess.Popen(
                [*command, "pyspark-shell"],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env=environ,
                cwd=directory.subdirectory("current"),
                start_new_session=True,
            )
        jvm = cls(process, output)
        try:
            jvm._wait_for_gateway(connection, settings.start_timeout_ms / 1000, given_up)
        except BaseException:
            jvm.kill()
            jvm.end(settings.stop_timeout_ms / 1000)
            raise
        return jvm

    @property
    def pid(self) -> int:
        """The JVM's process: the scripts that start it are replaced by it."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def exit_code_soon(self) -> int | None:
        """The exit code of one that may be about to end, for which it waits a moment."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(ENDING_S)
        return None

    def kill(self) -> None:
        """SIGKILL it; does not wait."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def end(self, timeout_s: float) -> int:
        """Let it stop Spark and exit, and wait for that; one that does not is killed. Returns the
        exit code."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _wait_for_gateway(
        self, connection: Path, timeout_s: float, given_up: threading.Event
    ) -> None:
        deadline = time.monotonic() + timeout_s
        # It takes a while to load, and so does the JVM.
        importlib.import_module("pyspark.java_gateway")
        while not connection.exists():
            if (code := self.exit_code()) is not None:
                raise RunnerUnavailable(f"Spark's JVM ended with {code}: {self._said()}")
            if time.monotonic() > deadline:
                raise RunnerUnavailable(f"Spark's JVM did not start in {timeout_s:.0f} s")
            if given_up.wait(POLL_S):
                raise RunnerUnavailable("Spark's start was given up")
        self.port, length = struct.unpack_from(">ii", written := connection.read_bytes())
        self.secret = written[8 : 8 + length].decode()
        connection.unlink()

    def _said(self) -> str:
        """The first telling line at the end of its output."""
        with self._output.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - SAID_MAX_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        telling = [line for line in lines if "rror" in line or "xception" in line] or lines[-1:]
        return f"{telling[0].strip() if telling else 'no output'} (see {self._output})"


def _trimmed(output: Path) -> Path:
    """The file, emptied if it has become too large."""
    with contextlib.suppress(FileNotFoundError):
        if output.stat().st_size > OUTPUT_MAX_BYTES:
            os.truncate(output, 0)
    return output
