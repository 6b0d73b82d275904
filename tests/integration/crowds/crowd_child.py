"""Several consumers of one group in one process, so that many fit and a crash takes some of them.
Each has a thread of its own: none keeps another one from joining, committing or leaving in time.

Usage: `python -m tests.integration.crowds.crowd_child SETTINGS` (JSON). Commands come on stdin, one
JSON list per line: `["join", NAME]`, `["leave", NAME]`, `["end"]`. Events go to stdout, one JSON
list per line: kind, member, time in ns of the machine's monotonic clock, and what happened. A
record is told before its offset is committed, so that what a crash loses is at most the commit.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

RECORDS_PER_TURN_MAX = 200
IDLE_S = 0.25
"""How long a member waits for a record before it looks whether something else is due."""
COMMIT_INTERVAL_S = 0.5
COMMIT_TIMEOUT_S = 15.0
"""How long a member that gives partitions up tries to commit: a broker may die meanwhile, and a
member of the consumer protocol may not have heard of its new epoch yet."""
COMMIT_PAUSE_S = 0.1
FINAL_REFUSALS = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
)
"""The group has gone on without this commit; whoever gets the partition begins before it."""

_telling = threading.Lock()


def tell(kind: str, member: str, *values: Any) -> None:
    """One event for the parent, which has it when this returns: the process may be killed."""
    with _telling:
        sys.stdout.write(json.dumps([kind, member, time.monotonic_ns(), *values]) + "\n")
        sys.stdout.flush()


class CrowdMember:
    """One consumer. It processes a record by telling it, and commits now and then."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name = name
        self._topic = settings["topic"]
        self._owned: set[int] = set()
        self._done: dict[int, int] = {}
        """Where to go on in each owned partition of which a record was processed."""
        self._committed: dict[int, int] = {}
        """What of it was committed, as far as the broker has answered."""
        self._runs: dict[int, list[int]] = {}
        """First and last offset of what was processed and not told yet, by partition."""
        self._commit_due_s = time.monotonic() + COMMIT_INTERVAL_S
        self._client = Consumer({**settings["client"], "client.id": name})
        self._client.subscribe(
            [self._topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        self._is_leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Leave the group, soon; what was processed is committed on the way out."""
        self._is_leaving.set()

    def wait_left(self) -> None:
        """Until it has left."""
        self._thread.join()

    def _run(self) -> None:
        while not self._is_leaving.is_set():
            self._turn()
        self._client.close()
        tell("left", self.name)

    def _turn(self) -> None:
        """Process what has come, and commit when it is time."""
        wait_s = IDLE_S
        for _ in range(RECORDS_PER_TURN_MAX):
            message = self._client.poll(wait_s)
            if message is None:
                break
            self._take(message)
            wait_s = 0
        self._tell_runs()
        if time.monotonic() >= self._commit_due_s:
            self._commit()
            self._commit_due_s = time.monotonic() + COMMIT_INTERVAL_S

    def _take(self, message: Message) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            tell("error", self.name, error.name())
        elif partition is not None and offset is not None:
            self._process(partition, offset)

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

    def _uncommitted(self) -> list[TopicPartition]:
        return [
            TopicPartition(self._topic, partition, offset)
            for partition, offset in self._done.items()
            if self._committed.get(partition) != offset
        ]

    def _commit(self) -> KafkaError | None:
        """Commit what was processed, and wait for the answer: of two commits on their way at once,
        the older one may be the later."""
        offsets = self._uncommitted()
        if not offsets:
            return None
        try:
            self._note_committed(self._client.commit(offsets=offsets, asynchronous=False))
        except KafkaException as refused:
            error: KafkaError = refused.args[0]
            tell("error", self.name, error.name())
            return error
        return None

    def _commit_at_last(self) -> None:
        """Commit everything, before somebody else goes on with it."""
        self._tell_runs()
        deadline_s = time.monotonic() + COMMIT_TIMEOUT_S
        while self._uncommitted() and time.monotonic() < deadline_s:
            error = self._commit()
            if error is not None and error.code() in FINAL_REFUSALS:
                return
            if error is not None:
                time.sleep(COMMIT_PAUSE_S)

    def _note_committed(self, partitions: list[TopicPartition]) -> None:
        good = {p.partition: p.offset for p in partitions if p.error is None and p.offset >= 0}
        self._committed |= {p: o for p, o in good.items() if p in self._owned}
        tell("committed", self.name, good)

    def _on_assign(self, _: Any, partitions: list[TopicPartition]) -> None:
        given = sorted(p.partition for p in partitions)
        self._owned |= set(given)
        tell("assigned", self.name, given)

    def _on_revoke(self, _: Any, partitions: list[TopicPartition]) -> None:
        taken = sorted(p.partition for p in partitions)
        self._commit_at_last()
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
        self._committed = {p: o for p, o in self._committed.items() if p in self._owned}


def main() -> None:
    """Serve commands until the end."""
    settings = json.loads(sys.argv[1])
    members: dict[str, CrowdMember] = {}
    for line in sys.stdin:
        kind, *names = json.loads(line)
        if kind == "join":
            members[names[0]] = CrowdMember(names[0], settings)
        elif kind == "leave":
            members[names[0]].leave()
        else:
            break
    for member in members.values():
        member.leave()
    for member in members.values():
        member.wait_left()


if __name__ == "__main__":
    main()
