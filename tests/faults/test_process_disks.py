"""A full disk, a read-only object directory and a quota under a running broker.

Clients get errors that they retry by themselves, what was acknowledged stays readable meanwhile,
and once the cause is gone everything works again without help.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.faults.processes.bystanders import Bystanders
from tests.faults.processes.disks import file_size_limit, filled, read_only, small_disk
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.waiting import wait_until

pytestmark = [pytest.mark.needs_server, pytest.mark.timeout(120)]

DISK_BYTES = 32 << 20
SETTINGS = {"session_timeout_ms": "1000", "gc_interval_ms": "200"}


def disturb(
    server: TowpathProcess, trouble: Callable[[], AbstractContextManager[None]]
) -> Bystanders:
    """Produce before, during (twice) and after a trouble, then after a restart."""
    clients = Bystanders(server)
    assert clients.try_once() == 0
    clients.send_in_background()
    for _ in range(2):
        with trouble():
            clients.expect_errors()
            clients.ledger.check(server.kafka_port)
            wait_until(lambda: not is_ready(server), "not ready any more")
        clients.expect_recovery()
        wait_until(lambda: is_ready(server), "ready again")
    server.kill()
    server.restart()
    clients.expect_recovery()
    return clients


def is_ready(server: TowpathProcess) -> bool:
    """What `/readyz` says."""
    try:
        with urllib.request.urlopen(f"{server.http_url}/readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False


def test_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "data", DISK_BYTES) as disk:
        server = TowpathProcess(tmp_path, settings=SETTINGS)
        try:
            server.start()
            disturb(server, lambda: filled(disk))
        finally:
            server.kill()
            print(server.process.log_tail())


def test_a_read_only_object_directory(tmp_path: Path) -> None:
    with small_disk(tmp_path / "data" / "objects", DISK_BYTES) as disk:
        server = TowpathProcess(tmp_path, settings=SETTINGS)
        try:
            server.start()
            disturb(server, lambda: read_only(disk))
        finally:
            server.kill()
            print(server.process.log_tail())


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    server = TowpathProcess(tmp_path, settings=SETTINGS)
    try:
        server.start()
        disturb(server, lambda: file_size_limit(server.process.pid))
    finally:
        server.kill()
        print(server.process.log_tail())
