"""One producer of a soak, run as a process: idempotent, at a steady rate, until asked to stop."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from towpath.soak.ledger import Written
from towpath.soak.plan import TOPIC, Plan
from towpath.soak.record import RecordMaker, parse
from towpath.soak.worker import Gone, Parent, Stall, arguments

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

RUN_RECORDS = 32
"""Records in a row for one partition."""
OUTSTANDING_MAX = 50_000
"""Records on their way at which a producer waits."""
POLL_S = 0.01


class SoakProducer:
    """Sends, and keeps the books of what was acknowledged."""

    def __init__(self, bootstrap: str, plan: Plan, number: int) -> None:
        from confluent_kafka import Producer

        self._number = number
        self._rate = plan.records_per_second / plan.producers
        self._partitions = plan.partitions
        self._make = RecordMaker(number, plan.record_bytes, plan.seed).make
        self._books = [Written() for _ in range(plan.partitions)]
        self._sent = 0
        self._settled = 0
        self._errors: dict[str, int] = {}
        self._stall = Stall()
        self._fatal = ""
        self._client = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "linger.ms": 10,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "queue.buffering.max.messages": 2 * OUTSTANDING_MAX,
                "log_level": 0,
                "error_cb": self._on_error,
            }
        )

    def run(self, parent: Parent) -> None:
        """Produce until asked to stop, deliver everything, and tell the books."""
        started_s = time.monotonic()
        while parent.ask() is None and not self._fatal:
            due = int((time.monotonic() - started_s) * self._rate) - self._sent
            self._send(min(due, OUTSTANDING_MAX - (self._sent - self._settled)))
            self._poll(parent)
        while self._sent > self._settled and not self._fatal:
            parent.ask()
            self._poll(parent)
        if self._fatal:
            # Everything in the queue is given up now.
            self._client.purge()
            self._client.flush(5.0)
        parent.tell({**self._progress(), "final": self._final()})

    def _send(self, count: int) -> None:
        for _ in range(count):
            partition = self._sent // RUN_RECORDS % self._partitions
            book = self._books[partition]
            value = self._make(partition, book.next_sequence)
            self._client.produce(TOPIC, value, partition=partition, on_delivery=self._settle)
            book.next_sequence += 1
            self._sent += 1

    def _poll(self, parent: Parent) -> None:
        if self._client.poll(POLL_S) or self._sent == self._settled:
            self._stall.moved()
        if parent.is_due():
            parent.tell(self._progress())

    def _settle(self, error: KafkaError | None, message: Message) -> None:
        self._settled += 1
        _, partition, sequence, checksum = parse(message.value())
        if error is None:
            self._books[partition].note_acknowledged(
                self._number, sequence, message.offset() or 0, checksum
            )
        else:
            self._count_error(error)
            self._books[partition].note_failed(sequence)

    def _on_error(self, error: KafkaError) -> None:
        self._count_error(error)
        if error.fatal():
            self._fatal = error.str()

    def _count_error(self, error: KafkaError) -> None:
        name = error.name()
        self._errors[name] = self._errors.get(name, 0) + 1

    def _progress(self) -> dict[str, Any]:
        return {
            "sent": self._sent,
            "acknowledged": sum(book.acknowledged for book in self._books),
            "errors": self._errors,
            "longest_stall_s": round(self._stall.longest_s, 3),
            "fatal": self._fatal,
        }

    def _final(self) -> dict[str, Any]:
        written = {str(number): book.to_dict() for number, book in enumerate(self._books)}
        return {"producer": self._number, "written": written}


def main() -> None:
    """`python -m towpath.soak.producer '{"bootstrap": ..., "plan": ..., "number": ...}'`."""
    given = arguments()
    producer = SoakProducer(given["bootstrap"], Plan.from_dict(given["plan"]), given["number"])
    with contextlib.suppress(Gone):
        producer.run(Parent())


if __name__ == "__main__":
    main()
