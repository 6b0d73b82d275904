"""Two brokers on one data directory, each started and struck by itself."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Mapping
from pathlib import Path

from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.waiting import wait_until
from tests.integration.harness.wire import Connection

SESSION_TIMEOUT_MS = 1000
METADATA = 3


class Pair:
    """`struck` carries the fault point, `other` goes on meanwhile."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        common = {"session_timeout_ms": str(SESSION_TIMEOUT_MS), **(settings or {})}
        self.struck = TowpathProcess(directory, settings={**common, "node_id": "1"})
        self.other = TowpathProcess(directory, settings={**common, "node_id": "2"})

    def start(self, fault: Mapping[str, str]) -> None:
        """Start both; `other` is the first and gets the leases of the collectors."""
        self.other.start()
        self.struck.restart(fault)

    def end(self) -> str:
        """Kill both; what they logged last (to one file)."""
        for broker in (self.struck, self.other):
            broker.kill()
        return self.other.process.log_tail()

    def seen_by_other(self) -> set[int]:
        """The ids of the brokers that `other` shows to clients, by Metadata v1 without topics."""
        with Connection("127.0.0.1", self.other.kafka_port) as connection:
            reader = connection.call(METADATA, 1, struct.pack(">i", 0))
            shown = set()
            for _ in range(reader.one("i")):
                shown.add(reader.one("i"))
                reader.string()
                reader.one("i")
                reader.string()
            return shown

    def wait_struck(self, action: str) -> bool:
        """Wait until the fault has struck and `other` has noticed, which for a stopped broker
        takes as long as its session.

        False if nobody can notice: the broker was stopped in the middle of a metadata write (of
        its session, say), and keeps everybody's lock.
        """
        if action == "kill":
            assert self.struck.process.wait() == -signal.SIGKILL
        else:
            wait_until(lambda: is_stopped(self.struck.process.pid), "stopped by its fault point")
            lock_file = self.struck.data_dir / "metadata.sqlite-lock"
            if holds_lock(self.struck.process.pid, lock_file):
                return False
        wait_until(lambda: self.seen_by_other() == {2}, "the struck broker's session ended")
        return True

    def resume(self) -> None:
        """Let a stopped broker go on."""
        os.kill(self.struck.process.pid, signal.SIGCONT)

    def wait_both(self) -> None:
        """Wait until the struck broker is a member again."""
        wait_until(lambda: self.seen_by_other() == {1, 2}, "both brokers registered")


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped the process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0] == "T"


def holds_lock(pid: int, lock_file: Path) -> bool:
    """Whether the process holds a `flock` of the file."""
    inode = str(lock_file.stat().st_ino)
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        held = fields[1:3] == ["FLOCK", "ADVISORY"]
        if held and fields[4] == str(pid) and fields[5].rpartition(":")[2] == inode:
            return True
    return False
