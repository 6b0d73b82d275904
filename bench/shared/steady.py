"""A producer that sends records to several topics at a steady pace, and notes every answer."""

from __future__ import annotations

import threading
import time

from confluent_kafka import KafkaError, Message, Producer

from bench.errors import MeasurementFailed
from bench.shared.lag_samples import Acknowledged
from bench.shared.payload import values

RECORD_BYTES = 100
LINGER_MS = 5
FLUSH_TIMEOUT_S = 30
FAILURES_KEPT = 10


class Steady:
    """Sends while the context lasts. `acknowledged` grows meanwhile, in the order of the answers.

    librdkafka answers in a thread of ours, at once: the pace-maker polls between two records.
    """

    def __init__(self, bootstrap: str, topics: tuple[str, ...], rate: int) -> None:
        self._topics = topics
        self._interval_s = 1 / rate
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": LINGER_MS}
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._failed: list[KafkaError] = []
        self.acknowledged: list[Acknowledged] = []

    def __enter__(self) -> Steady:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.close()  # Otherwise it looks for its broker until it is collected.

    def check(self) -> None:
        """Raise MeasurementFailed if a record was not acknowledged."""
        if self._failed:
            raise MeasurementFailed(f"a record was not acknowledged: {self._failed[0].str()}")

    def _send(self) -> None:
        texts = values(RECORD_BYTES)
        due = time.monotonic()
        sent = 0
        while not self._stop.is_set():
            for topic in self._topics:
                text = texts[sent % len(texts)]
                self._producer.produce(topic, text, on_delivery=self._on_delivery)
                sent += 1
            due += self._interval_s
            while (left_s := due - time.monotonic()) > 0:
                self._producer.poll(left_s)
        self._producer.flush(FLUSH_TIMEOUT_S)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            if len(self._failed) < FAILURES_KEPT:
                self._failed.append(error)
            return
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        self.acknowledged.append(Acknowledged(topic, partition, offset, time.monotonic_ns()))
