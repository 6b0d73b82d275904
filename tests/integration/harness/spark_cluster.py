"""Spark's own servers from pip's pyspark: a standalone cluster, and a Spark Connect server.

Everything listens on 127.0.0.1. Jobs of `spark_jobs` can be run on them.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from tests.integration.harness.ports import free_ports
from tests.integration.harness.process_tree import descendants
from tests.integration.harness.server_process import ServerProcess
from tests.integration.harness.spark_jobs import WORKER_PATH
from tests.integration.harness.waiting import wait_until

from towpath.lakehouse.java import find_java
from towpath.lakehouse.runners.spark_conf import (
    LIMITS,
    PYTHON_PATH,
    QUICK_START,
    WORKER_DAEMON,
    spark_home,
)

HOST = "127.0.0.1"
START_TIMEOUT_S = 120.0
EXECUTOR_CONF = {
    PYTHON_PATH: WORKER_PATH,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": " ".join([*QUICK_START, "-Xms32m"]),
}
"""What an application on the cluster should be given as its settings."""


class SparkCluster:
    """A master and some workers with one core each, as processes."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self._directory = directory
        self._ports = free_ports(2 + 2 * workers)
        self.master_url = f"spark://{HOST}:{self._ports}"
        self._master = self._make_master()
        self._workers = [self._make_worker(index) for index in range(workers)]

    def start(self) -> None:
        """Start everything and wait until the master knows all workers."""
        self._master.spawn()
        wait_until_listening(self._master, self._ports)
        for worker in self._workers:
            worker.spawn()
        wait_until(
            lambda: all(map(_is_registered, self._workers)), "workers", timeout_s=START_TIMEOUT_S
        )

    def stop(self) -> None:
        """Kill every process of it."""
        for process in [*self._workers, self._master]:
            process.kill()

    def kill_worker(self, index: int) -> None:
        """SIGKILL a worker's process. Its executors notice by themselves."""
        self._workers[index].kill_alone()

    def restart_worker(self, index: int) -> None:
        """Start a worker that was killed."""
        self._workers[index] = self._make_worker(index)
        self._workers[index].spawn()
        worker = self._workers[index]
        wait_until(lambda: _is_registered(worker), "worker", timeout_s=START_TIMEOUT_S)

    def executors(self) -> list[int]:
        """Every process that the workers have started: executors and their Python workers."""
        return [pid for worker in self._workers for pid in worker.descendants()]

    def log(self) -> str:
        """What the servers said last."""
        return "\n".join(process.log_tail() for process in [self._master, *self._workers])

    def _make_master(self) -> SparkServer:
        arguments = ["--host", HOST, "--port", str(self._ports)]
        arguments += ["--webui-port", str(self._ports + 1)]
        return SparkServer("org.apache.spark.deploy.master.Master", arguments, self._directory)

    def _make_worker(self, index: int) -> SparkServer:
        port = self._ports + 2 + 2 * index
        name = f"worker-{port}-{free_ports()}"
        arguments = ["--host", HOST, "--port", str(port), "--webui-port", str(port + 1)]
        arguments += ["--cores", "1", "--memory", "512m", "--work-dir"]
        arguments += [str(self._directory / name), self.master_url]
        worker = "org.apache.spark.deploy.worker.Worker"
        return SparkServer(worker, arguments, self._directory, name)


class ConnectServer:
    """A Spark Connect server with two cores in its own JVM."""

    def __init__(self, directory: Path) -> None:
        port = free_ports()
        self.url = f"sc://{HOST}:{port}"
        self._port = port
        conf = {
            **LIMITS,
            PYTHON_PATH: WORKER_PATH,
            "spark.master": "local[2,4]",
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.bindAddress": HOST,
            "spark.driver.host": HOST,
            "spark.local.dir": str(directory),
            "spark.python.daemon.module": WORKER_DAEMON,
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.ui.enabled": "false",
        }
        arguments = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        for name, value in conf.items():
            arguments += ["--conf", f"{name}={value}"]
        submit = "org.apache.spark.deploy.SparkSubmit"
        self.process = SparkServer(submit, [*arguments, "spark-internal"], directory, "connect")

    def start(self) -> None:
        """Start it and wait until it listens."""
        self.process.spawn()
        wait_until_listening(self.process, self._port)

    def stop(self) -> None:
        """Kill it."""
        self.process.kill()

    def python_workers(self) -> list[int]:
        """The processes that the server has started."""
        return descendants(self.process.pid)


class SparkServer(ServerProcess):
    """One of Spark's main classes, started as Spark's scripts do, with Java as Towpath finds it."""

    def __init__(
        self, main_class: str, arguments: list[str], directory: Path, name: str = "master"
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        command = [str(spark_home() / "bin" / "spark-class"), main_class, *arguments]
        java = find_java(directory / "java")
        env = {
            "JAVA_HOME": str(java.home),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": WORKER_PATH,
            "SPARK_DAEMON_JAVA_OPTS": " ".join([*QUICK_START, "-Xms32m"]),
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_HOME": str(spark_home()),
            "SPARK_LAUNCHER_OPTS": " ".join(QUICK_START),
            "SPARK_LOCAL_DIRS": str(directory),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        }
        super().__init__(command, directory / f"{name}.log", env, [])

    def kill_alone(self) -> None:
        """SIGKILL the process, not its children, and wait until it is gone."""
        assert self._process is not None, "not started"
        self._process.kill()
        self._process.wait()


def wait_until_listening(server: ServerProcess, port: int) -> None:
    """Wait until a server of Spark's takes connections."""

    def listens() -> bool:
        assert server.exit_code() is None, server.log_tail()
        with socket.socket() as probe:
            return probe.connect_ex((HOST, port)) == 0

    wait_until(listens, f"{server.command[1]} listening", timeout_s=START_TIMEOUT_S)


def _is_registered(worker: ServerProcess) -> bool:
    assert worker.exit_code() is None, worker.log_tail()
    return "Successfully registered with master" in worker.log_tail()
