"""The parent's side of members: sessions that join, wait, leave and die."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import MeasurementFailed
from bench.groups.rows import CLASSIC
from bench.groups.systems import HEARTBEAT_MS, SESSION_MS
from bench.shared.session import Session

TOPIC = "groups"
PARTITIONS = 12
"""Of the topic: one to three members get different but equal numbers of them."""
WAIT_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 90.0


@dataclass(frozen=True)
class Place:
    """Where a member joins."""

    port: int
    group_id: str
    protocol: str

    def settings(self) -> dict[str, object]:
        """librdkafka's, the rest as it comes. In the consumer protocol the broker sets times."""
        found: dict[str, object] = {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "group.id": self.group_id,
            "group.protocol": self.protocol,
        }
        if self.protocol == CLASSIC:
            found |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
        return found


@dataclass(frozen=True)
class Held:
    """What a member has, and since when."""

    partitions: tuple[int, ...]
    changed_ns: int


class MemberSession(Session):
    """A process that is a member of one group at a time."""

    def __init__(self, log_file: Path) -> None:
        super().__init__("bench.groups.member", [], log_file)
        self.is_dead = False

    def join(self, place: Place) -> int:
        """Join; when that began."""
        question = {"do": "join", "topic": TOPIC, "settings": place.settings()}
        return int(self.ask(question, ANSWER_TIMEOUT_S)["began_ns"])

    def wait(self, count: int, timeout_s: float = WAIT_TIMEOUT_S) -> Held:
        """Until it has as many partitions, or the time is over."""
        question = {"do": "wait", "count": count, "timeout_s": timeout_s}
        told = self.ask(question, ANSWER_TIMEOUT_S)
        return Held(tuple(told["partitions"]), int(told["changed_ns"]))

    def leave(self) -> int:
        """Close the consumer; when that began."""
        return int(self.ask({"do": "close"}, ANSWER_TIMEOUT_S)["began_ns"])

    def die(self) -> int:
        """Kill the process; when that was."""
        at_ns = time.monotonic_ns()
        os.kill(self.pid, signal.SIGKILL)
        self.is_dead = True
        return at_ns


class MemberPool:
    """Processes that are in no group. Use it as a context: none is left after it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made = 0
        self._living: list[MemberSession] = []

    def __enter__(self) -> MemberPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._close(self._living)
        self._living = []

    @contextlib.contextmanager
    def members(self, count: int) -> Iterator[list[MemberSession]]:
        """So many of them, once they are up. Those that die meanwhile are forgotten; if anything
        fails, all are."""
        self._start(count - len(self._living))
        taken, self._living = self._living[:count], self._living[count:]
        try:
            yield taken
        except BaseException:
            self._close(taken)
            raise
        self._close([one for one in taken if one.is_dead])
        self._living += [one for one in taken if not one.is_dead]

    def _start(self, count: int) -> None:
        started = []
        for _ in range(count):
            started.append(MemberSession(self._directory / f"member-{self._made}.log"))
            self._made += 1
        self._living += started
        for session in started:
            session.answer()

    def _close(self, sessions: Iterable[MemberSession]) -> None:
        for session in sessions:
            session.close()


def wait_for_shares(members: Sequence[MemberSession]) -> None:
    """Until every member has its equal share; MeasurementFailed if that does not happen."""
    share = PARTITIONS // len(members)
    check_shares([member.wait(share) for member in members])


def settled_ns(members: Sequence[MemberSession]) -> int:
    """When the last of them got its share, after which nothing has changed any more."""
    held = [member.wait(PARTITIONS // len(members), 0) for member in members]
    check_shares(held)
    return max(one.changed_ns for one in held)


def check_shares(held: Iterable[Held]) -> None:
    """MeasurementFailed unless every partition is had once and all have the same number."""
    shares = [one.partitions for one in held]
    everything = sorted(partition for share in shares for partition in share)
    is_even = len({len(share) for share in shares}) == 1
    if everything != list(range(PARTITIONS)) or not is_even:
        raise MeasurementFailed(f"the members have {shares}")
