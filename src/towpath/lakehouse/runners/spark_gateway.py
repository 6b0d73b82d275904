"""Joins pyspark, which means to have one JVM for the life of a process, to JVMs that come and go.

pyspark keeps its JVM and its context in attributes of classes. They are filled and emptied here and
nowhere else; all of its private names that Towpath uses are in this file.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

from towpath.lakehouse.runners.runner import RunnerUnavailable
from towpath.lakehouse.runners.spark_jvm import SparkJvm

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


class SparkGateway:
    """pyspark's connection to one JVM, and the context in it."""

    def __init__(self, gateway: Any, context: Any) -> None:
        self._gateway = gateway
        self.context = context
        """The `pyspark.SparkContext`."""
        self._files = ""
        """A directory that pyspark has put on the path of modules."""

    @classmethod
    def open(cls, jvm: SparkJvm, python: str) -> SparkGateway:
        """Connect and create a context with the settings the JVM was started with; workers are run
        by the interpreter `python`. Raises whatever pyspark raises; what it left is cleaned up."""
        from pyspark import SparkConf, SparkContext, SparkFiles

        if SparkContext._active_spark_context is not None or SparkContext._gateway is not None:
            raise RunnerUnavailable("this process has another Spark session already")
        gateway = _connect(jvm)
        opened = cls(gateway, None)
        try:
            opened.context = SparkContext(conf=SparkConf(_jvm=gateway.jvm), gateway=gateway)
            opened._files = SparkFiles.getRootDirectory()
        except BaseException:
            opened.forget()
            raise
        opened.context.pythonExec = python
        # It would print a traceback when the JVM goes.
        opened.context._accumulatorServer.handle_error = _ignore
        return opened

    def is_stopped(self) -> bool:
        """Whether Spark has stopped by itself, or cannot be asked any more."""
        from py4j.protocol import Py4JError

        try:
            return bool(self.context._jsc.sc().isStopped())
        except (Py4JError, OSError, AttributeError):
            return True

    def forget(self) -> None:
        """Let pyspark forget a JVM that has ended, so that it takes the next one."""
        from pyspark import SparkContext, SparkFiles
        from pyspark.sql import SparkSession

        if self.context is not None:
            # Not `stop()`: it would call the JVM, and warn that it does not answer.
            self.context._jsc = None
            if self.context._accumulatorServer is not None:
                self.context._accumulatorServer.shutdown()
        with contextlib.suppress(ValueError):
            sys.path.remove(self._files)
        SparkFiles._sc = None
        with SparkContext._lock:
            SparkContext._active_spark_context = None
            SparkContext._gateway = None
            SparkContext._jvm = None
            SparkSession._instantiatedSession = SparkSession._activeSession = None
        _disconnect(self._gateway)


def _connect(jvm: SparkJvm) -> Any:
    """pyspark's gateway to a JVM that is there already: it takes its address from variables."""
    from pyspark import java_gateway

    launch: Any = java_gateway.launch_gateway
    os.environ[_PORT], os.environ[_SECRET] = str(jvm.port), jvm.secret
    try:
        return launch()
    finally:
        del os.environ[_PORT], os.environ[_SECRET]


def _disconnect(gateway: Any) -> None:
    """Close the connections, and end the thread that tells the JVM of collected objects."""
    from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER

    client = gateway._gateway_client
    client.is_connected = False
    client.close()
    client.finalizer_deque.appendleft(SHUTDOWN_FINALIZER_WORKER)


def _ignore(*_: object) -> None:
    """Nothing."""
