"""A group of many members in few processes, which join, leave and crash on command."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.crowds.books import Books
from tests.integration.harness.waiting import DeadlineExceeded, wait_until

REPOSITORY = Path(__file__).resolve().parents[3]
END_TIMEOUT_S = 30.0
LEAVE_TIMEOUT_S = 60.0
HEARTBEATS_PER_SESSION = 6
HEARTBEAT_INTERVAL_MAX_MS = 3_000
BALANCE_INTERVAL_S = 0.1


class CrowdProcess:
    """One process with members of its own."""

    def __init__(self, settings: dict[str, Any], books: Books) -> None:
        self.members: list[str] = []
        self._books = books
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.crowds.crowd_child", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def join(self, name: str) -> None:
        """One more member."""
        self.members.append(name)
        self._command("join", name)

    def leave_some(self, count: int) -> list[str]:
        """The last members go, properly; their names."""
        going = self.members[-count:]
        for name in going:
            self.members.remove(name)
            self._command("leave", name)
        return going

    def crash(self) -> None:
        """SIGKILL: all its members are dead at once."""
        at_ns = time.monotonic_ns()
        self._process.kill()
        self._wait()
        self._books.crashed(self.members, at_ns)

    def end(self) -> None:
        """End a process whose members have left."""
        self._command("end")
        self._wait()
        assert self._process.returncode == 0

    def _command(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def _wait(self) -> None:
        self._process.wait(END_TIMEOUT_S)
        self._thread.join(END_TIMEOUT_S)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # A killed process may leave half a line.
                self._books.note(json.loads(line))


class Crowd:
    """The members of one group on one topic."""

    def __init__(self, settings: dict[str, Any], partitions: int) -> None:
        is_consumer_protocol = settings["client"].get("group.protocol") == "consumer"
        self.books = Books(may_report_late=is_consumer_protocol)
        self.processes: list[CrowdProcess] = []
        self._settings = settings
        self._partitions = partitions
        self._numbers = itertools.count(1)

    @property
    def members(self) -> list[str]:
        """Everybody who should be in the group."""
        return [name for process in self.processes for name in process.members]

    def add_process(self, members: int) -> CrowdProcess:
        """A new process with so many members."""
        process = CrowdProcess(self._settings, self.books)
        self.processes.append(process)
        for _ in range(members):
            self.join(process)
        return process

    def join(self, process: CrowdProcess) -> None:
        """One more member of a process."""
        process.join(f"m{next(self._numbers)}")

    def leave(self, process: CrowdProcess, count: int) -> None:
        """The last members of a process leave; returns when they are gone."""
        self._wait_left(process.leave_some(count))

    def crash(self, process: CrowdProcess) -> None:
        """Kill a process."""
        self.processes.remove(process)
        process.crash()

    def wait_balanced(self, timeout_s: float) -> None:
        """Until every partition has one owner among the members, and nobody too few or many."""
        try:
            wait_until(
                self._is_balanced,
                f"{len(self.members)} members share {self._partitions} partitions",
                timeout_s=timeout_s,
                interval_s=BALANCE_INTERVAL_S,
            )
        except DeadlineExceeded as late:
            shares = {m: self._shares().get(m, 0) for m in self.members}
            raise DeadlineExceeded(f"{late}; {shares}; {self.books.errors}") from None

    def _is_balanced(self) -> bool:
        shares = self._shares()
        least = self._partitions // len(self.members)
        return (
            set(shares) <= set(self.members)
            and sum(shares.values()) == self._partitions
            and all(least <= shares.get(m, 0) <= least + 1 for m in self.members)
        )

    def _shares(self) -> dict[str, int]:
        shares: dict[str, int] = {}
        for owners in self.books.owners().values():
            for owner in owners:
                shares[owner] = shares.get(owner, 0) + 1
        return shares

    def end(self) -> None:
        """All leave, properly."""
        self._wait_left([name for p in self.processes for name in p.leave_some(len(p.members))])
        for process in self.processes:
            process.end()
        self.processes = []

    def _wait_left(self, going: list[str]) -> None:
        wait_until(
            lambda: self.books.left.issuperset(going), f"{going} left", timeout_s=LEAVE_TIMEOUT_S
        )

    def kill(self) -> None:
        """End what is left."""
        for process in list(self.processes):
            self.crash(process)


@contextmanager
def crowd(
    bootstrap: str, group: str, topic: str, partitions: int, client: ClientKind
) -> Iterator[Crowd]:
    """A group whose processes are killed at the end, if they are still there."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, **client.settings}
    many = Crowd({"library": client.library, "topic": topic, "client": settings}, partitions)
    try:
        yield many
    finally:
        many.kill()


@dataclass(frozen=True)
class ClientKind:
    """A client library and its way of sharing partitions, in librdkafka's words."""

    library: str
    settings: dict[str, Any]


def client_kind(name: str, session_timeout_ms: int) -> ClientKind:
    """The clients of a crowd: a strategy of librdkafka's, or another library."""
    if name == "consumer":
        return ClientKind("confluent", {"group.protocol": "consumer"})
    times = {
        "session.timeout.ms": session_timeout_ms,
        "heartbeat.interval.ms": _heartbeat_interval_ms(session_timeout_ms),
    }
    if name in ("aiokafka", "kafka-python"):
        return ClientKind(name, times)
    strategy = {"range": "range", "cooperative": "cooperative-sticky"}[name]
    return ClientKind("confluent", {"partition.assignment.strategy": strategy, **times})


def broker_settings(session_timeout_ms: int) -> dict[str, str]:
    """What a broker is told so that a death is noticed in the same time with either protocol."""
    session, heartbeat = str(session_timeout_ms), str(_heartbeat_interval_ms(session_timeout_ms))
    return {
        "group.consumer.session.timeout.ms": session,
        "group.consumer.min.session.timeout.ms": session,
        "group.consumer.heartbeat.interval.ms": heartbeat,
        "group.consumer.min.heartbeat.interval.ms": heartbeat,
    }


def _heartbeat_interval_ms(session_timeout_ms: int) -> int:
    return min(session_timeout_ms // HEARTBEATS_PER_SESSION, HEARTBEAT_INTERVAL_MAX_MS)
