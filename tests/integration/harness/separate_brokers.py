"""Broker processes of one cluster that live and die each for itself: nobody starts them again."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.integration.harness.ports import free_ports
from tests.integration.harness.server_process import ServerProcess
from tests.integration.harness.towpath_process import REPOSITORY
from tests.integration.harness.waiting import wait_until
from tests.integration.harness.wire import answers_api_versions


class SeparateBrokers:
    """`towpath broker` N times on one data directory; broker i has the id i + 1."""

    def __init__(
        self, directory: Path, brokers: int, settings: Mapping[str, str] | None = None
    ) -> None:
        self.brokers = brokers
        self._directory = directory
        self.kafka_port = free_ports(brokers)
        self.http_port = free_ports(brokers)
        self.bootstraps = [f"127.0.0.1:{self.kafka_port + i}" for i in range(brokers)]
        self.bootstrap = ",".join(self.bootstraps)
        given = {
            "data_dir": str(directory / "data"),
            "kafka_port": str(self.kafka_port),
            "http_port": str(self.http_port),
            "brokers": str(brokers),
            "iceberg_enabled": "false",
            **(settings or {}),
        }
        self._env = {f"TOWPATH_{name.upper()}": value for name, value in given.items()}
        self._processes = [self._make(index) for index in range(brokers)]

    def _make(self, index: int) -> ServerProcess:
        command = [sys.executable, "-m", "towpath", "broker", "--index", str(index)]
        path = os.pathsep.join([str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")])
        log = self._directory / f"broker-{index}.log"
        env = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **self._env}
        return ServerProcess(command, log, env, [self.kafka_port + index])

    def start(self, *indexes: int) -> None:
        """Start these brokers, or all, and wait until they answer."""
        chosen = indexes or tuple(range(self.brokers))
        for index in chosen:
            self._processes[index].spawn()
        for index in chosen:
            port = self.kafka_port + index
            wait_until(
                lambda: answers_api_versions("127.0.0.1", port),  # noqa: B023 - called at once.
                f"broker {index} ready",
                timeout_s=60.0,
            )

    def kill(self, *indexes: int) -> None:
        """SIGKILL these brokers, or all."""
        for index in indexes or range(self.brokers):
            self._processes[index].kill()

    def pid(self, index: int) -> int:
        """The process of a broker."""
        return self._processes[index].pid

    def log_tails(self) -> str:
        """What the brokers wrote last."""
        return "\n".join(f"-- broker {i}\n{p.log_tail()}" for i, p in enumerate(self._processes))
