"""The metadata database locked by somebody else, for less and for more than a write may wait."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from tests.faults.processes.bystanders import Bystanders
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.waiting import wait_until

from towpath.metadata.sqlite.limits import SqliteLimits

pytestmark = [pytest.mark.needs_server, pytest.mark.timeout(120)]

SHORT_S = 2.0
LONG_S = SqliteLimits().write_timeout_ms / 1000 + 3.0
SESSION_TIMEOUT_MS = "3000"
"""Shorter than the long lock: the broker cannot renew its own session meanwhile."""


@contextmanager
def lock_file(database: Path) -> Iterator[None]:
    """The lock that Towpath's processes queue for."""
    descriptor = os.open(f"{database}-lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def sqlite_lock(database: Path) -> Iterator[None]:
    """SQLite's own lock, as a backup or a curious administrator would hold it."""
    connection = sqlite3.connect(
        database, isolation_level=None, check_same_thread=False, timeout=30
    )
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


Lock = Callable[[Path], AbstractContextManager[None]]


class Holder:
    """Holds a lock for a time, in a thread of its own."""

    def __init__(self, hold: Lock, database: Path, seconds: float) -> None:
        self._hold = hold
        self._database = database
        self._seconds = seconds
        self.held = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with self._hold(self._database):
            self.held.set()
            threading.Event().wait(self._seconds)

    def start(self) -> None:
        """Return when the lock is held."""
        self._thread.start()
        assert self.held.wait(30)

    def is_over(self) -> bool:
        """Whether the lock is free again."""
        return not self._thread.is_alive()

    def join(self) -> None:
        """Wait until it is."""
        self._thread.join()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TowpathProcess]:
    """A running broker."""
    process = TowpathProcess(tmp_path, settings={"session_timeout_ms": SESSION_TIMEOUT_MS})
    try:
        process.start()
        yield process
    finally:
        process.kill()
        print(process.process.log_tail())


@pytest.mark.parametrize("lock", [lock_file, sqlite_lock])
def test_a_short_lock_only_delays(server: TowpathProcess, lock: Lock) -> None:
    clients = Bystanders(server)
    assert clients.try_once() == 0
    holder = Holder(lock, server.data_dir / "metadata.sqlite", SHORT_S)
    holder.start()
    clients.send_in_background()
    assert clients.try_once() == 0
    assert holder.is_over(), "the commit waited for the lock"
    clients.expect_recovery()


@pytest.mark.parametrize("lock", [lock_file, sqlite_lock])
def test_a_long_lock_is_a_retriable_error(server: TowpathProcess, lock: Lock) -> None:
    clients = Bystanders(server)
    assert clients.try_once() == 0
    holder = Holder(lock, server.data_dir / "metadata.sqlite", LONG_S)
    holder.start()
    clients.send_in_background()
    assert clients.try_once() != 0
    assert not holder.is_over(), "the broker does not wait for ever"
    clients.ledger.check(server.kafka_port)
    holder.join()
    clients.expect_recovery()


def test_a_request_that_waits_too_long_is_told_so_and_may_still_happen(
    server: TowpathProcess,
) -> None:
    clients = Bystanders(server)
    holder = Holder(lock_file, server.data_dir / "metadata.sqlite", SHORT_S)
    holder.start()
    request_timed_out = 7
    assert clients.try_once(timeout_ms=200) == request_timed_out
    assert not holder.is_over()
    holder.join()
    clients.expect_recovery()
    wait_until(lambda: clients.try_once() == 0, "produce works")
    clients.check()
