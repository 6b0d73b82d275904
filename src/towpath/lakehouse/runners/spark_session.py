"""The long-lived classic session: started when first used, again when it died, ended when idle."""

from __future__ import annotations

import contextlib
import sys
import threading
from dataclasses import dataclass
from typing import Any

import structlog

from towpath.lakehouse.java import JavaNotFound, find_java
from towpath.lakehouse.runners.runner import RunnerUnavailable
from towpath.lakehouse.runners.spark_directory import SessionDirectory
from towpath.lakehouse.runners.spark_errors import one_line
from towpath.lakehouse.runners.spark_gateway import SparkGateway
from towpath.lakehouse.runners.spark_jvm import SparkJvm
from towpath.lakehouse.runners.spark_settings import SparkSettings

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Running:
    """What a running session consists of."""

    directory: SessionDirectory
    jvm: SparkJvm
    gateway: SparkGateway


class ClassicSession:
    """Spark with a driver of our own. Everything blocks, and is called by one thread; `abort` and
    `jvm_pid` may be used by any. A process can have one only: that is pyspark's limit."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._running: _Running | None = None
        self._starting: SparkJvm | None = None
        self._given_up = threading.Event()

    @property
    def jvm_pid(self) -> int | None:
        """The driver's JVM, if there is one."""
        return None if self._running is None else self._running.jvm.pid

    def context(self) -> Any:
        """The `pyspark.SparkContext` of a living session, which is started if there is none. Raises
        RunnerUnavailable if that is not possible."""
        if self._running is not None and (reason := self.why_lost()):
            logger.warning("Spark session lost, starting another", reason=reason)
            self.stop()
        if self._running is None:
            self._running = self._start()
        return self._running.gateway.context

    def why_lost(self) -> str | None:
        """Why the session cannot be used any more; None if it can."""
        if self._running is None:
            return "the session has ended"
        jvm = self._running.jvm
        if jvm.exit_code() is None and not self._running.gateway.is_stopped():
            return None
        code = jvm.exit_code_soon()
        return "Spark has stopped by itself" if code is None else f"Spark's JVM ended with {code}"

    def stop(self) -> None:
        """End the session and its JVM, and wait for that. It starts again when it is next used."""
        running, self._running = self._running, None
        if running is not None:
            self._end(running.directory, running.jvm, running.gateway)
            logger.info("Spark session ended")

    def abort(self) -> None:
        """Kill the JVM, so that whatever is being run or started fails at once. Does not block;
        `resume` and `stop` come next."""
        self._given_up.set()
        for jvm in (self._starting, self._running.jvm if self._running else None):
            if jvm is not None:
                jvm.kill()

    def resume(self) -> None:
        """Sessions may be started again after an `abort`."""
        self._given_up.clear()

    def _start(self) -> _Running:
        settings = self._settings
        directory = jvm = None
        try:
            java = find_java(settings.work_dir / "java")
            if java.passed_over:
                logger.warning("the packaged Java is used", reason=java.passed_over)
            directory = SessionDirectory.make(settings.work_dir)
            jvm = SparkJvm.start(settings, directory, java, self._given_up)
            self._starting = jvm
            if self._given_up.is_set():
                jvm.kill()
            python = settings.conf.get("spark.pyspark.python", sys.executable)
            gateway = SparkGateway.open(jvm, python)
        except BaseException as error:
            self._end(directory, jvm, None)
            if isinstance(error, JavaNotFound | RunnerUnavailable):
                raise RunnerUnavailable(str(error)) from error
            if isinstance(error, Exception):
                raise RunnerUnavailable(f"Spark did not start: {one_line(error)}") from error
            raise
        finally:
            self._starting = None
        ui = gateway.context.uiWebUrl
        logger.info("Spark session started", master=settings.master, ui=ui, pid=jvm.pid)
        return _Running(directory, jvm, gateway)

    def _end(
        self,
        directory: SessionDirectory | None,
        jvm: SparkJvm | None,
        gateway: SparkGateway | None,
    ) -> None:
        with contextlib.ExitStack() as ending:
            if directory is not None:
                ending.callback(directory.remove)
            if gateway is not None:
                ending.callback(gateway.forget)
            if jvm is not None:
                jvm.end(self._settings.stop_timeout_ms / 1000)
