"""Towpath as a user starts it: `python -m towpath up` in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.integration.harness.ports import free_ports
from tests.integration.harness.server_process import ServerProcess
from tests.integration.harness.waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[3]
DEFAULTS = {
    "iceberg_enabled": "false",
    # Many tests write records of years ago, which retention would remove in the middle of one.
    "log_retention_check_interval_ms": "86400000",
}
"""What these brokers are told unless a test says otherwise."""


class TowpathProcess:
    """`towpath up` with one or several brokers on one data directory.

    `settings` are names of the settings tree (`auto_create_topics_enable`), passed as TOWPATH_*
    environment; `env` is passed as it is.
    """

    is_kafka = False

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.brokers = brokers
        self.data_dir = directory / "data"
        self.kafka_port = free_ports(brokers)
        self.http_port = free_ports(brokers)
        self.bootstraps = [f"127.0.0.1:{self.kafka_port + i}" for i in range(brokers)]
        self.bootstrap = ",".join(self.bootstraps)
        self.http_url = f"http://127.0.0.1:{self.http_port}"
        self._log_file = directory / "towpath.log"
        self._settings = {
            "TOWPATH_" + name.upper().replace(".", "_"): value
            for name, value in {**DEFAULTS, **(settings or {})}.items()
        }
        self.process = self._make_process(env or {})

    def _make_process(self, env: Mapping[str, str]) -> ServerProcess:
        command = [sys.executable, "-m", "towpath", "up"]
        command += ["--data-dir", str(self.data_dir), "--kafka-port", str(self.kafka_port)]
        command += ["--http-port", str(self.http_port)]
        if self.brokers > 1:
            command += ["--brokers", str(self.brokers)]
        path = os.pathsep.join([str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")])
        ports = [self.kafka_port + i for i in range(self.brokers)]
        variables = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **self._settings, **env}
        return ServerProcess(command, self._log_file, variables, ports)

    def start(self) -> None:
        """Start and wait until every broker answers."""
        self.process.start()

    def stop(self) -> int:
        """Stop by SIGTERM; the exit code."""
        return self.process.stop()

    def kill(self) -> None:
        """SIGKILL every process of it at once."""
        self.process.kill()

    def restart(self, env: Mapping[str, str] | None = None) -> None:
        """Start again on the same ports and data, with other environment if given. It must have
        been stopped or killed, or have died."""
        self.process.kill()
        self.process = self._make_process(env or {})
        self.start()

    def broker_pid(self, index: int) -> int:
        """The process that listens on broker `index`'s Kafka port."""
        inode = _listening_inode(self.kafka_port + index)
        for pid in [self.process.pid, *self.process.descendants()]:
            if inode in _socket_inodes(pid):
                return pid
        raise AssertionError(f"nobody listens on {self.kafka_port + index}")

    def kill_broker(self, index: int) -> None:
        """SIGKILL one broker of several and wait until that process is gone."""
        pid = self.broker_pid(index)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: pid not in self.process.descendants(), f"process {pid} gone")


def _listening_inode(port: int) -> str:
    """The inode of the socket that listens on 127.0.0.1:port, or '' if there is none."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        address, listens = fields[1], fields[3] == "0A"
        if listens and int(address.split(":")[1], 16) == port:
            return fields[9]
    return ""


def _socket_inodes(pid: int) -> set[str]:
    found = set()
    for entry in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found
