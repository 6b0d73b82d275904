"""Members of a group as processes: consumers of several libraries, and kcat."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.integration.harness.waiting import DeadlineExceeded, wait_until

REPOSITORY = Path(__file__).resolve().parents[3]
CLOSE_TIMEOUT_S = 30.0
INCREMENTAL = frozenset({"cooperative-sticky", "consumer"})
"""Where a client is told of changes and not of everything it has."""

_KCAT_LINE = re.compile(
    r"rebalanced(?: \(memberid [^)]*\): (?P<eager>assigned|revoked): "
    r"|: incremental (?P<change>assignment|revoke) of [^)]*\)[^)]*\): )(?P<where>.*)$"
)
_KCAT_PARTITION = re.compile(r"\[(\d+)\]")


class GroupMember:
    """One process. What it tells is read by a thread."""

    def __init__(self, command: list[str], *, incremental: bool, is_kcat: bool) -> None:
        self.assigned: frozenset[int] = frozenset()
        self.has_been_assigned = False
        self.consumed: list[tuple[int, int]] = []
        self.moves: list[str] = []
        """`assigned` and `revoked`, as they came."""
        self._incremental = incremental
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )
        self._errors: list[str] = []
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        out, err = self._process.stdout, self._process.stderr
        readers = (
            [(out, self._kcat_record), (err, self._kcat_line)]
            if is_kcat
            else [(out, self._event), (err, self._errors.append)]
        )
        self._threads = [
            threading.Thread(target=_each_line, args=reader, daemon=True) for reader in readers
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Leave the group properly."""
        self._process.terminate()
        self._wait()
        assert self._process.returncode == 0, "".join(self._errors)[-3000:]

    def crash(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._wait()

    def story(self) -> str:
        """What is known of it, for failures."""
        errors = "".join(self._errors)[-2000:]
        return f"{sorted(self.assigned)} after {self.moves}, {len(self.consumed)} records, {errors}"

    def _wait(self) -> None:
        self._process.wait(CLOSE_TIMEOUT_S)
        for thread in self._threads:
            thread.join(CLOSE_TIMEOUT_S)
        self.assigned = frozenset()

    def _event(self, line: str) -> None:
        event, *values = json.loads(line)
        if event == "consumed":
            self.consumed += [(partition, offset) for partition, offset in values[0]]
        elif event in ("assigned", "revoked"):
            self._moved(event, values[0])

    def _moved(self, event: str, partitions: Iterable[int]) -> None:
        self.moves.append(event)
        given = event == "assigned"
        if not self._incremental:
            self.assigned = frozenset(partitions) if given else frozenset()
        else:
            self.assigned = (
                self.assigned.union(partitions) if given else self.assigned.difference(partitions)
            )
        self.has_been_assigned = self.has_been_assigned or given

    def _kcat_record(self, line: str) -> None:
        partition, offset = line.split()
        self.consumed.append((int(partition), int(offset)))

    def _kcat_line(self, line: str) -> None:
        self._errors.append(line)
        match = _KCAT_LINE.search(line)
        if match is not None:
            given = "assign" in (match["eager"] or match["change"])
            numbers = [int(number) for number in _KCAT_PARTITION.findall(match["where"])]
            self._moved("assigned" if given else "revoked", numbers)


def _each_line(stream: IO[str], take: Any) -> None:
    for line in stream:
        take(line)


class GroupUnderTest:
    """Starts members of one group on one topic, and waits for what they agree on."""

    def __init__(
        self,
        library: str,
        bootstrap: str,
        group: str,
        topic: str,
        partitions: int,
        **settings: Any,
    ) -> None:
        self.library = library
        self.partitions = partitions
        self.members: list[GroupMember] = []
        self.gone: list[GroupMember] = []
        self._settings = {
            "bootstrap": bootstrap,
            "group": group,
            "topic": topic,
            "strategy": "range",
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 500,
            **settings,
        }

    def start(self, count: int = 1, **settings: Any) -> list[GroupMember]:
        """More members."""
        started = [self._start({**self._settings, **settings}) for _ in range(count)]
        self.members += started
        return started

    def _start(self, settings: dict[str, Any]) -> GroupMember:
        kind = settings.get("protocol", settings["strategy"])
        incremental = kind in INCREMENTAL
        if self.library == "kcat":
            command = _kcat_command(settings)
            return GroupMember(command, incremental=incremental, is_kcat=True)
        module = "tests.integration.harness.group_child"
        command = [sys.executable, "-m", module, self.library, json.dumps(settings)]
        return GroupMember(command, incremental=incremental, is_kcat=False)

    def close(self, member: GroupMember) -> None:
        """One member leaves."""
        self.members.remove(member)
        self.gone.append(member)
        member.close()

    def crash(self, member: GroupMember) -> None:
        """One member is killed."""
        self.members.remove(member)
        self.gone.append(member)
        member.crash()

    def wait_balanced(self, timeout_s: float = 40.0) -> None:
        """Until every partition has exactly one member and every member its fair share."""
        what = f"{len(self.members)} members share {self.partitions} partitions"
        try:
            wait_until(self._is_balanced, what, timeout_s=timeout_s)
        except DeadlineExceeded as late:
            raise DeadlineExceeded(f"{late}; {[m.story() for m in self.members]}") from None

    def _is_balanced(self) -> bool:
        owned = [partition for member in self.members for partition in member.assigned]
        least = self.partitions // len(self.members)
        return sorted(owned) == list(range(self.partitions)) and all(
            least <= len(member.assigned) <= least + 1 for member in self.members
        )

    def wait_consumed(self, wanted: set[tuple[int, int]], timeout_s: float = 40.0) -> None:
        """Until every one of these records has been consumed by somebody."""
        wait_until(lambda: wanted <= self.consumed(), f"{len(wanted)} records", timeout_s=timeout_s)

    def consumed(self) -> set[tuple[int, int]]:
        """What anybody has consumed so far."""
        return {record for member in [*self.members, *self.gone] for record in member.consumed}

    def kill_all(self) -> None:
        """End what is left."""
        for member in list(self.members):
            self.crash(member)


def _kcat_command(settings: dict[str, Any]) -> list[str]:
    options = {
        "auto.offset.reset": "earliest",
        "session.timeout.ms": settings["session_timeout_ms"],
        "heartbeat.interval.ms": settings["heartbeat_interval_ms"],
        "auto.commit.interval.ms": 200,
        "partition.assignment.strategy": settings["strategy"],
    }
    command = ["kcat", "-b", settings["bootstrap"], "-u", "-f", "%p %o\n"]
    for name, value in options.items():
        command += ["-X", f"{name}={value}"]
    return [*command, "-G", settings["group"], settings["topic"]]


@contextmanager
def group_under_test(*args: Any, **kwargs: Any) -> Iterator[GroupUnderTest]:
    """A group whose members are killed at the end, if they are still there."""
    group = GroupUnderTest(*args, **kwargs)
    try:
        yield group
    finally:
        group.kill_all()
