"""The systems under test: this broker, and Apache Kafka with and without a sync per append.

Each is one broker with the defaults a user gets. Kafka runs with the flags and the heap its own
start script gives it, and with the settings of its own sample file for one node.
"""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path

from tests.integration.harness.java_tools import JAVA_DIR, class_path, java_tool
from tests.integration.harness.ports import free_ports
from tests.integration.harness.server_process import ServerProcess
from tests.integration.harness.towpath_process import TowpathProcess

from bench.client import Client, read_answer
from bench.errors import BenchError, MeasurementFailed

TOWPATH, KAFKA, KAFKA_FLUSH = "towpath", "kafka", "kafka-flush"
NAMES = (TOWPATH, KAFKA, KAFKA_FLUSH)

CLUSTER_ID = "towpath-bench-kafkaAAA"
HEAP_FLAGS = ("-Xms1G", "-Xmx1G")
JVM_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Xlog:disable",
    f"-Dlog4j2.configurationFile={JAVA_DIR / 'log4j2.properties'}",
)
PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
log.dirs={data_dir}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


class System(ABC):
    """One broker with a data directory of its own."""

    name: str

    def __init__(self, directory: Path, program: Path) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self.process = self._make_process()
        self.client = Client(program, f"127.0.0.1:{self.process.ports[0]}")

    @abstractmethod
    def _make_process(self) -> ServerProcess: ...

    def format(self) -> None:  # noqa: B027 (most systems need none)
        """Make the data directory ready, which is no part of a start."""

    def start(self) -> float:
        """Start it; the seconds until the first record was acknowledged, or MeasurementFailed."""
        started_ns = time.monotonic_ns()
        self.process.spawn()
        try:
            answer = read_answer(self.client.start("ping", topic="ping"))
        except MeasurementFailed as failure:
            raise MeasurementFailed(
                f"{self.name} did not start: {failure}\n{self.process.log_tail()}"
            ) from failure
        return (int(answer["acked_ns"]) - started_ns) / 1e9

    def stop(self) -> None:
        """End it by SIGTERM; MeasurementFailed when that takes too long."""
        try:
            self.process.stop()
        except subprocess.TimeoutExpired as late:
            raise MeasurementFailed(f"{self.name} did not stop") from late

    def kill(self) -> None:
        """End it at once; its data is not wanted any more."""
        self.process.kill()

    def check_alive(self) -> None:
        """Raise MeasurementFailed when the broker has ended."""
        if (code := self.process.exit_code()) is not None:
            raise MeasurementFailed(f"{self.name} ended with {code}\n{self.process.log_tail()}")

    @property
    def pids(self) -> list[int]:
        """The broker's processes."""
        return [self.process.pid, *self.process.descendants()]


class Towpath(System):
    """`towpath up` with its defaults."""

    name = TOWPATH

    def _make_process(self) -> ServerProcess:
        return TowpathProcess(self._directory).process


class Kafka(System):
    """Apache Kafka in KRaft combined mode."""

    name = KAFKA
    extra_properties = ""

    def _make_process(self) -> ServerProcess:
        port = free_ports(1)
        self._settings_file = self._directory / "server.properties"
        self._settings_file.write_text(
            PROPERTIES.format(
                port=port, controller_port=free_ports(1), data_dir=self._directory / "data"
            )
            + self.extra_properties
        )
        command = ["java", *HEAP_FLAGS, *JVM_FLAGS, "-cp", class_path()]
        command += ["kafka.Kafka", str(self._settings_file)]
        return ServerProcess(command, self._directory / "kafka.log", {}, [port])

    def format(self) -> None:
        """What `kafka-storage format` does."""
        formatted = java_tool(
            "kafka.tools.StorageTool",
            *("format", "--standalone", "--cluster-id", CLUSTER_ID),
            *("--config", str(self._settings_file)),
        )
        if formatted.exit_code:
            raise BenchError(f"Kafka's data directory was not formatted: {formatted.output}")


class KafkaFlush(Kafka):
    """Kafka that syncs each append before it answers, as this broker does."""

    name = KAFKA_FLUSH
    extra_properties = "log.flush.interval.messages=1\n"


KINDS: dict[str, type[System]] = {kind.name: kind for kind in (Towpath, Kafka, KafkaFlush)}


def kafka_version() -> str:
    """The version in the name of Kafka's jar."""
    for entry in class_path().split(":"):
        name = Path(entry).name
        if name.startswith("kafka_2.13-"):
            return name.removeprefix("kafka_2.13-").removesuffix(".jar")
    return "unknown"
