"""Fixtures of the tests with real clients and real processes.

`TOWPATH_TEST_PEER=kafka` runs the same tests against Apache Kafka, which proves the tests; tests
of what only Towpath has are skipped there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.integration.harness.kafka_peer import KafkaPeer
from tests.integration.harness.seaweedfs import SeaweedFs
from tests.integration.harness.server_process import ServerProcess
from tests.integration.harness.towpath_process import TowpathProcess

HERE = Path(__file__).resolve().parent
PEER = os.environ.get("TOWPATH_TEST_PEER", "towpath")


class Broker(Protocol):
    """What a test of a real client needs to know of the broker it talks to."""

    bootstrap: str
    kafka_port: int
    process: ServerProcess
    is_kafka: bool


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this directory needs a server."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.needs_server)


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests of a worker: Towpath, or Apache Kafka when asked for."""
    directory = tmp_path_factory.mktemp("shared")
    server = KafkaPeer(directory) if PEER == "kafka" else TowpathProcess(directory)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def broker(shared_broker: Broker) -> Iterator[Broker]:
    """The shared broker. What it logs during a test is shown when the test fails."""
    since = shared_broker.process.log_size_bytes()
    yield shared_broker
    print(shared_broker.process.log_tail(since))
    assert shared_broker.process.exit_code() is None, "the broker died during this test"


@pytest.fixture
def bootstrap(broker: Broker) -> str:
    """The shared broker's address."""
    return broker.bootstrap


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFs]:
    """An S3 server for all tests of a worker, with the bucket `objects` and, for a catalog's
    tables, the bucket `tables`."""
    server = SeaweedFs(tmp_path_factory.mktemp("s3"))
    try:
        server.start()
        server.make_buckets("objects", "tables")
        yield server
    finally:
        server.stop()


@pytest.fixture
def start_towpath(tmp_path: Path) -> Iterator[Callable[..., TowpathProcess]]:
    """Starts private Towpath brokers: `start_towpath(brokers=3, settings={...}, env={...})`. They
    are stopped after the test, and what they logged is shown when it fails."""
    if PEER == "kafka":
        pytest.skip("a test of Towpath alone")
    started: list[TowpathProcess] = []

    def start(**options: Any) -> TowpathProcess:
        directory = tmp_path / f"towpath-{len(started)}"
        directory.mkdir()
        server = TowpathProcess(directory, **options)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.kill()
        print(server.process.log_tail())
