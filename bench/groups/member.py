"""A member of a group: a librdkafka consumer in a process of its own.

It notes when its assignment changed, in nanoseconds of the machine's monotonic clock, which all
processes share. It is asked in lines of JSON, see `main`.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer

from bench.shared.answering import failure, next_question, take_stdout

POLL_S = 0.1
CLOSE_TIMEOUT_S = 30.0
CONSUMER_PROTOCOL = "consumer"


class Member:
    """One consumer. A thread of its own polls and in the end closes it."""

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self._is_incremental = settings.get("group.protocol") == CONSUMER_PROTOCOL
        self._changed = threading.Condition()
        self._partitions: frozenset[int] = frozenset()
        self._changed_ns = 0
        self._leave = threading.Event()
        self._left_ns = 0
        self.started_ns = time.monotonic_ns()
        self._consumer = Consumer(settings)
        self._consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._leave.is_set():
            message = self._consumer.poll(POLL_S)
            if message is not None and message.error():
                print(f"member: {message.error()}", file=sys.stderr)
        self._left_ns = time.monotonic_ns()
        self._consumer.close()

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        added = frozenset(one.partition for one in partitions)
        self._change(self._partitions | added if self._is_incremental else added)

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        removed = frozenset(one.partition for one in partitions)
        self._change(self._partitions - removed if self._is_incremental else frozenset())

    def _change(self, partitions: frozenset[int]) -> None:
        with self._changed:
            self._partitions = partitions
            self._changed_ns = time.monotonic_ns()
            self._changed.notify_all()

    def wait(self, count: int, timeout_s: float) -> dict[str, Any]:
        """Until it has as many partitions; what it has then, or after the time-out."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._partitions) == count, timeout_s)
            return {"partitions": sorted(self._partitions), "changed_ns": self._changed_ns}

    def close(self) -> dict[str, Any]:
        """Leave the group; when that began and ended."""
        self._leave.set()
        self._thread.join(CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError("the consumer was not closed in time")
        return {"began_ns": self._left_ns, "ended_ns": time.monotonic_ns()}


def main() -> None:
    """Answer `join`, `wait` and `close` until stdin ends."""
    answer = take_stdout()
    answer({"up": True})
    member: Member | None = None
    while (question := next_question()) is not None:
        try:
            if question["do"] == "join":
                member = Member(question["settings"], question["topic"])
                answer({"began_ns": member.started_ns})
                continue
            assert member is not None, "not joined"
            if question["do"] == "wait":
                answer(member.wait(question["count"], question["timeout_s"]))
            else:
                answer(member.close())
                member = None
        except Exception as error:  # noqa: BLE001 - the parent is told.
            answer(failure(error))


if __name__ == "__main__":
    main()
