"""One consumer of a soak, run as a process: all partitions from the start, at its own pace.

It joins no group and reads until it has reached the end offsets that it is told.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from towpath.soak.ledger import Reader
from towpath.soak.plan import TOPIC, Plan
from towpath.soak.worker import Gone, Parent, Stall, arguments

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

MESSAGES_PER_CALL = 1000
CALL_TIMEOUT_S = 0.1
RECEIVE_QUEUE_KBYTES = 16_384
"""What the client may fetch ahead; a slow reader must not hold the whole log in memory."""


class SoakConsumer:
    """Reads and checks every record."""

    def __init__(
        self, bootstrap: str, plan: Plan, records_per_second_max: int | None = None
    ) -> None:
        """A slow reader has `records_per_second_max`, until it is told where the end is."""
        from confluent_kafka import Consumer, TopicPartition

        self._rate = records_per_second_max
        self._reader = Reader()
        self._stall = Stall()
        self._errors: dict[str, int] = {}
        self._ends: dict[int, int] | None = None
        self._client = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "soak",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 50,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "queued.max.messages.kbytes": RECEIVE_QUEUE_KBYTES,
                "log_level": 0,
                "error_cb": self._on_error,
            }
        )
        self._client.assign([TopicPartition(TOPIC, p, 0) for p in range(plan.partitions)])

    def run(self, parent: Parent, *, knowing: bool) -> None:
        """Read until every end is reached, then tell what was read.

        `knowing`: wait for the ends, and for what was not acknowledged, before reading at all.
        """
        if knowing:
            self._take(parent.ask(None))
        started_s = time.monotonic()
        while not self._is_finished():
            self._take(parent.ask())
            if self._is_ahead(started_s):
                time.sleep(CALL_TIMEOUT_S)
                self._stall.moved()
            else:
                self._consume()
            if parent.is_due():
                parent.tell(self._progress())
        parent.tell({**self._progress(), "final": self._reader.to_dict()})
        self._client.close()

    def _take(self, asked: dict[str, Any] | None) -> None:
        """Take the ends, and where given the sequences that were not acknowledged."""
        if asked is None:
            return
        self._rate = None
        self._ends = {int(partition): end for partition, end in asked["ends"].items()}
        if "failed" in asked:
            self._reader = Reader(
                {(row["producer"], row["partition"]): set(row["failed"]) for row in asked["failed"]}
            )

    def _is_finished(self) -> bool:
        if self._ends is None:
            return False
        return all(self._reader.next_offset(p) >= end for p, end in self._ends.items())

    def _is_ahead(self, started_s: float) -> bool:
        if self._rate is None:
            return False
        return self._reader.count > (time.monotonic() - started_s) * self._rate

    def _consume(self) -> None:
        moved = False
        for message in self._client.consume(MESSAGES_PER_CALL, CALL_TIMEOUT_S):
            error = message.error()
            if error is not None:
                self._on_error(error)
                if not error.retriable():
                    self._reader.complain(f"the client failed: {error.str()}")
                continue
            self._reader.read(message.partition() or 0, message.offset() or 0, message.value())
            moved = True
        if moved:
            self._stall.moved()

    def _on_error(self, error: KafkaError) -> None:
        name = error.name()
        self._errors[name] = self._errors.get(name, 0) + 1

    def _progress(self) -> dict[str, Any]:
        return {
            "read": self._reader.count,
            "errors": self._errors,
            "problems": self._reader.problem_count,
            "longest_stall_s": round(self._stall.longest_s, 3),
        }


def main() -> None:
    """`python -m towpath.soak.consumer '{"bootstrap": ..., "plan": ..., "knowing": ...}'`."""
    given = arguments()
    plan = Plan.from_dict(given["plan"])
    consumer = SoakConsumer(given["bootstrap"], plan, given.get("records_per_second_max"))
    with contextlib.suppress(Gone):
        consumer.run(Parent(), knowing=given.get("knowing", False))


if __name__ == "__main__":
    main()
