"""Apache Kafka itself, one node in KRaft combined mode: the reference the tests are proven on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.integration.harness.java_tools import java_command, java_tool
from tests.integration.harness.ports import free_ports
from tests.integration.harness.server_process import ServerProcess

CLUSTER_ID = "towpath-test-kafka-peer"
HEAP_MB = 1024

PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{kafka_port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{kafka_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
log.dirs={data_dir}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
# Many tests write records of years ago, which retention would remove in the middle of one.
log.retention.check.interval.ms=86400000
# Small files and buffers: the tests make thousands of partitions on a small machine.
log.index.size.max.bytes=65536
log.cleaner.dedupe.buffer.size=4194304
"""


class KafkaPeer:
    """A running Apache Kafka broker. `settings` are properties that override those above."""

    is_kafka = True

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.kafka_port = free_ports(1)
        self.bootstrap = f"127.0.0.1:{self.kafka_port}"
        self.data_dir = directory / "kafka-data"
        self._settings_file = directory / "server.properties"
        self._settings_file.write_text(
            PROPERTIES.format(
                kafka_port=self.kafka_port,
                controller_port=free_ports(1),
                data_dir=self.data_dir,
            )
            # Of two lines with the same name Java takes the last.
            + "".join(f"{name}={value}\n" for name, value in (settings or {}).items())
        )
        self.process = ServerProcess(
            java_command("kafka.Kafka", str(self._settings_file), heap_mb=HEAP_MB),
            directory / "kafka.log",
            {},
            [self.kafka_port],
        )

    def start(self) -> None:
        """Format the data directory and start the broker."""
        formatted = java_tool(
            "kafka.tools.StorageTool",
            *("format", "--standalone", "--cluster-id", CLUSTER_ID),
            *("--config", str(self._settings_file)),
        )
        assert formatted.exit_code == 0, formatted.output
        self.process.start()

    def stop(self) -> None:
        """Stop by SIGTERM."""
        self.process.stop()
