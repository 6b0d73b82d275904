"""The brokers of a soak: started, killed without warning, and started again at once."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from towpath.soak.plan import BROKER_SETTINGS, TOPIC, Plan
from towpath.soak.process_size import ProcessSize, size_of

FIRST_PORT = 20_000
LAST_PORT = 32_000
"""Below the ports that the kernel gives to outgoing connections."""
PORT_TRIES = 1000
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 40.0
LOOK_EVERY_S = 0.05
ADMIN_TIMEOUT_S = 30.0


class ClusterFailed(Exception):
    """A broker does not start or does not stop."""


class Cluster:
    """Broker processes on one data directory. Their output goes to one file."""

    def __init__(self, plan: Plan, data_dir: Path, log_file: Path) -> None:
        self.brokers = plan.brokers
        self.data_dir = data_dir
        self.kills = 0
        self._log_file = log_file
        ports = free_ports(2 * plan.brokers)
        self._kafka_ports = [ports + i for i in range(plan.brokers)]
        self._http_port = ports + plan.brokers
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._kafka_ports)
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start every broker and wait until all serve."""
        self._processes = [self._spawn(index) for index in range(self.brokers)]
        self.wait_ready(time.monotonic() + START_TIMEOUT_S)

    def create_topic(self, partitions: int) -> None:
        """Create the topic that is soaked; one that exists belongs to another soak."""
        from towpath.cli.client import admin, admin_types, result
        from towpath.cli.errors import CliError

        new = admin_types().NewTopic(TOPIC, num_partitions=partitions)
        try:
            client = admin(self.bootstrap)
            result(client.create_topics([new])[TOPIC], f"create topic {TOPIC}")
        except (CliError, TimeoutError) as error:
            raise ClusterFailed(f"the topic cannot be created: {error or 'no answer'}") from error

    def kill(self, index: int) -> None:
        """SIGKILL one broker and start it again."""
        process = self._processes[index]
        process.kill()
        process.wait()
        self.kills += 1
        self._processes[index] = self._spawn(index)

    def is_ready(self, index: int) -> bool:
        """Whether the broker accepts connections; raises ClusterFailed if it has ended."""
        code = self._processes[index].poll()
        if code is not None:
            raise ClusterFailed(f"broker {index + 1} ended by itself with exit code {code}")
        try:
            socket.create_connection(("127.0.0.1", self._kafka_ports[index]), 1.0).close()
        except OSError:
            return False
        return True

    def wait_ready(self, deadline_s: float) -> None:
        """Wait until every broker serves."""
        for index in range(self.brokers):
            while not self.is_ready(index):
                if time.monotonic() > deadline_s:
                    raise ClusterFailed(f"broker {index + 1} does not serve")
                time.sleep(LOOK_EVERY_S)

    def ends(self, partitions: int) -> dict[int, int]:
        """The log end offsets."""
        from confluent_kafka import TopicPartition

        from towpath.cli.client import consumer

        client = consumer(self.bootstrap, {})
        found = {}
        for partition in range(partitions):
            where = TopicPartition(TOPIC, partition)
            marks = client.get_watermark_offsets(where, timeout=ADMIN_TIMEOUT_S)
            if marks is None:
                raise ClusterFailed(f"nobody tells the end of partition {partition}")
            found[partition] = marks[1]
        client.close()
        return found

    def sizes(self) -> list[ProcessSize]:
        """Memory and open files of each broker now."""
        return [size_of(process.pid) for process in self._processes]

    def stop(self) -> list[str]:
        """Stop by SIGTERM; what was not a clean stop."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        problems = []
        for number, process in enumerate(self._processes, 1):
            try:
                code = process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                problems.append(f"broker {number} did not stop")
                continue
            if code != 0:
                problems.append(f"broker {number} stopped with exit code {code}")
        return problems

    def end(self) -> None:
        """Kill what still runs."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def _spawn(self, index: int) -> subprocess.Popen[bytes]:
        """Start a broker that ends when this process does."""
        command = [sys.executable, "-m", "towpath", "broker", "--index", str(index), "--supervised"]
        settings = {
            **BROKER_SETTINGS,
            "brokers": str(self.brokers),
            "data_dir": str(self.data_dir),
            "kafka_port": str(self._kafka_ports[0]),
            "http_port": str(self._http_port),
        }
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        with self._log_file.open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )


def free_ports(count: int) -> int:
    """The first of `count` consecutive free ports of 127.0.0.1."""
    for _ in range(PORT_TRIES):
        first = random.randrange(FIRST_PORT, LAST_PORT - count)
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise ClusterFailed(f"no {count} consecutive free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
