"""Several consumers of one group in one process, so that many fit and a crash takes some of them.

Usage: `python -m tests.integration.crowds.crowd_child SETTINGS` (JSON). Commands come on stdin, one
JSON list per line: `["join", NAME]`, `["leave", NAME]`, `["end"]`. Events go to stdout, one JSON
list per line: kind, member, time in ns of the machine's monotonic clock, and what happened. A
record is told before its offset is committed, so that what a crash loses is at most the commit.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

RECORDS_PER_TURN_MAX = 200
IDLE_S = 0.01
COMMIT_INTERVAL_S = 0.5
COMMIT_ATTEMPTS_MAX = 5
"""Of a member that gives partitions up: a broker may die while it commits."""


def tell(kind: str, member: str, *values: Any) -> None:
    """One event for the parent."""
    sys.stdout.write(json.dumps([kind, member, time.monotonic_ns(), *values]) + "\n")


class CrowdMember:
    """One consumer. It processes a record by telling it, and commits now and then."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name = name
        self._topic = settings["topic"]
        self._owned: set[int] = set()
        self._done: dict[int, int] = {}
        self._sent: dict[int, int] = {}
        """The last commit of each partition that is still owned."""
        self._runs: dict[int, list[int]] = {}
        """First and last offset of what was processed and not told yet, by partition."""
        self._commit_due_s = time.monotonic() + COMMIT_INTERVAL_S
        self._client = Consumer(
            {**settings["client"], "client.id": name, "on_commit": self._on_commit}
        )
        self._client.subscribe(
            [self._topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    def turn(self) -> bool:
        """Process what has come; whether that was anything."""
        count = 0
        while count < RECORDS_PER_TURN_MAX and (message := self._client.poll(0)) is not None:
            count += 1
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                tell("error", self.name, error.name())
            elif partition is not None and offset is not None:
                self._process(partition, offset)
        self._tell_runs()
        if self._done and time.monotonic() >= self._commit_due_s:
            self._commit(asynchronous=True)
        return count > 0

    def leave(self) -> None:
        """Leave the group; what was processed is committed on the way out."""
        self._client.close()
        sys.stdout.flush()

    def _process(self, partition: int, offset: int) -> None:
        if partition not in self._owned:
            tell("stray", self.name, partition, offset)
        run = self._runs.get(partition)
        if run is not None and offset == run[1] + 1:
            run[1] = offset
        else:
            if run is not None:
                self._tell_runs()
            self._runs[partition] = [offset, offset]
        self._done[partition] = offset + 1

    def _tell_runs(self) -> None:
        for partition, (first, last) in self._runs.items():
            tell("processed", self.name, partition, first, last)
        self._runs = {}

    def _commit(self, *, asynchronous: bool) -> None:
        self._tell_runs()
        sys.stdout.flush()
        offsets = [TopicPartition(self._topic, p, o) for p, o in self._done.items()]
        self._sent |= self._done
        self._done = {}
        self._commit_due_s = time.monotonic() + COMMIT_INTERVAL_S
        if asynchronous:
            try:
                self._client.commit(offsets=offsets)
            except KafkaException as refused:
                self._not_committed(refused.args[0], offsets)
            return
        for _ in range(COMMIT_ATTEMPTS_MAX):
            try:
                self._client.commit(offsets=offsets, asynchronous=False)
                return
            except KafkaException as refused:
                tell("error", self.name, refused.args[0].name())

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if error is not None:
            self._not_committed(error, partitions)
            return
        good = {p.partition: p.offset for p in partitions if p.error is None and p.offset >= 0}
        tell("committed", self.name, good)

    def _not_committed(self, error: KafkaError, offsets: list[TopicPartition]) -> None:
        """Try again with the next commit, unless the partition was given up since: somebody else
        may have gone on with it."""
        tell("error", self.name, error.name())
        for place in offsets:
            if self._sent.get(place.partition) == place.offset:
                self._done.setdefault(place.partition, place.offset)

    def _on_assign(self, _: Any, partitions: list[TopicPartition]) -> None:
        given = sorted(p.partition for p in partitions)
        self._owned |= set(given)
        tell("assigned", self.name, given)

    def _on_revoke(self, _: Any, partitions: list[TopicPartition]) -> None:
        taken = sorted(p.partition for p in partitions)
        if self._done:
            self._commit(asynchronous=False)
        self._drop(taken)
        tell("revoked", self.name, taken)

    def _on_lost(self, _: Any, partitions: list[TopicPartition]) -> None:
        taken = sorted(p.partition for p in partitions)
        self._tell_runs()
        self._drop(taken)
        tell("lost", self.name, taken)

    def _drop(self, taken: list[int]) -> None:
        self._owned -= set(taken)
        self._done = {p: o for p, o in self._done.items() if p in self._owned}
        self._sent = {p: o for p, o in self._sent.items() if p in self._owned}


def _read_commands(commands: queue.SimpleQueue[list[str]]) -> None:
    for line in sys.stdin:
        commands.put(json.loads(line))
    commands.put(["end"])


def main() -> None:
    """Serve commands and consume until the end."""
    settings = json.loads(sys.argv[1])
    commands: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
    threading.Thread(target=_read_commands, args=(commands,), daemon=True).start()
    members: dict[str, CrowdMember] = {}
    while True:
        while not commands.empty():
            kind, *names = commands.get()
            if kind == "join":
                members[names[0]] = CrowdMember(names[0], settings)
            elif kind == "leave":
                members.pop(names[0]).leave()
                tell("left", names[0])
            else:
                return
        busy = [member.turn() for member in members.values()]
        sys.stdout.flush()
        if not any(busy):
            time.sleep(IDLE_S)


if __name__ == "__main__":
    main()
