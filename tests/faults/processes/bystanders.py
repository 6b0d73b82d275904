"""Clients that work before, during and after a disturbance of a broker's stores."""

from __future__ import annotations

import itertools
from typing import Any

from tests.faults.processes.ledger import Ledger
from tests.faults.processes.produce import RETRIABLE, Batch, produce
from tests.integration.harness.admin import create_topic
from tests.integration.harness.clients import producer
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.waiting import wait_until
from tests.integration.harness.wire import Connection

RECORDS_PER_BATCH = 3
DELIVERY_TIMEOUT_S = 60.0


class Bystanders:
    """A plain producer that sees every error, and an idempotent one that retries by itself."""

    def __init__(self, server: TowpathProcess) -> None:
        self.server = server
        self.ledger = Ledger(create_topic(server.bootstrap))
        self.retried = Ledger(create_topic(server.bootstrap))
        self._numbers = itertools.count()
        self._client = producer(
            server.bootstrap,
            enable_idempotence=True,
            message_timeout_ms=0,
            retry_backoff_ms=50,
            reconnect_backoff_max_ms=500,
        )

    def values(self) -> list[bytes]:
        """New values."""
        return [b"value-%d" % next(self._numbers) for _ in range(RECORDS_PER_BATCH)]

    def try_once(self, *, timeout_ms: int = 30_000) -> int:
        """Produce a batch; its error, which clients must be able to retry."""
        batch = Batch(self.values())
        self.ledger.sent(batch.values)
        with Connection("127.0.0.1", self.server.kafka_port) as connection:
            done = produce(connection, self.ledger.topic, batch, timeout_ms=timeout_ms)
        if done.error == 0:
            self.ledger.acknowledged(done.base_offset, batch.values)
        else:
            assert done.error in RETRIABLE, f"error {done.error} is not retriable"
        return done.error

    def send_in_background(self) -> None:
        """Hand records to the idempotent client, whatever the broker does."""
        values = self.values()
        self.retried.sent(values)
        for value in values:
            self._client.produce(
                self.retried.topic, value, partition=0, on_delivery=self._delivered
            )
        self._client.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.retried.acknowledged(message.offset(), [message.value()])

    def expect_errors(self, count: int = 3) -> None:
        """Produce while it cannot work: every answer is an error that clients retry."""
        for _ in range(count):
            assert self.try_once() != 0
            self.send_in_background()

    def expect_recovery(self) -> None:
        """The cause is gone: without any help producing works again, and all adds up."""
        wait_until(lambda: self.try_once() == 0, "produce works again")
        self.send_in_background()
        assert self._client.flush(DELIVERY_TIMEOUT_S) == 0
        self.check()
        assert self.server.process.exit_code() is None

    def check(self) -> None:
        """Both logs are as their producers know them; nothing of the retried one is missing."""
        self.ledger.check(self.server.kafka_port)
        found = self.retried.check(self.server.kafka_port)
        assert len(found) == self.retried.acknowledged_count
