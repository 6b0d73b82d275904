"""A broker is killed, or stopped for longer than its session, at each step of a flush, while a
second broker goes on with the same partition.

The client whose request got stuck sends it again to the other broker. Whatever the struck broker
does when it comes back, every acknowledged record is at its offset, and an idempotent batch is
there once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.processes.ledger import Ledger
from tests.faults.processes.pair import Pair
from tests.faults.processes.produce import RETRIABLE, Batch, produce, receive, send
from tests.faults.processes.rounds import rounds
from tests.integration.harness.admin import create_topic
from tests.integration.harness.waiting import wait_until
from tests.integration.harness.wire import Connection, Produced

pytestmark = [pytest.mark.needs_server, pytest.mark.timeout(240)]

POINTS = ("before-put", "after-put", "after-commit")
FLUSHES_BEFORE_STRIKE = 2
RECORDS_PER_BATCH = 3


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Two brokers, not yet started."""
    pair = Pair(tmp_path)
    yield pair
    print(pair.end())


class Strikes:
    """Rounds of one pair: produce until the fault strikes, go on, bring the broker back."""

    def __init__(self, pair: Pair, point: str, action: str) -> None:
        self.pair = pair
        self.action = action
        self.fault = {
            "TOWPATH_FAULT_POINT": point,
            "TOWPATH_FAULT_ACTION": action,
            "TOWPATH_FAULT_AFTER": str(FLUSHES_BEFORE_STRIKE),
        }
        pair.start(self.fault)
        self.ledger = Ledger(create_topic(pair.other.bootstrap))
        self._numbers = itertools.count()

    def values(self) -> list[bytes]:
        """New values."""
        return [b"value-%d" % next(self._numbers) for _ in range(RECORDS_PER_BATCH)]

    def acknowledge(self, done: Produced, batch: Batch) -> None:
        """The batch must have been accepted."""
        assert done.error == 0
        self.ledger.acknowledged(done.base_offset, batch.values)

    def run(self, *, idempotent: bool) -> None:
        """One round."""
        ports = self.pair.struck.kafka_port, self.pair.other.kafka_port
        with Connection("127.0.0.1", ports[0]) as stuck, Connection("127.0.0.1", ports[1]) as good:
            producer = good.init_producer_id() if idempotent else (-1, -1)
            batches = [
                Batch(self.values(), (*producer, i * RECORDS_PER_BATCH if idempotent else -1))
                for i in range(FLUSHES_BEFORE_STRIKE + 1)
            ]
            for batch in batches:
                self.ledger.sent(batch.values)
            for batch in batches[: FLUSHES_BEFORE_STRIKE - 1]:
                self.acknowledge(produce(stuck, self.ledger.topic, batch), batch)
            unanswered, following = batches[FLUSHES_BEFORE_STRIKE - 1 :]
            send(stuck, self.ledger.topic, unanswered)
            others_can_write = self.pair.wait_struck(self.action)
            if not idempotent:
                # Sent again because there was no answer, and perhaps after a retriable error.
                self.ledger.sent(unanswered.values * 2)
            if others_can_write:
                self.go_on(good, unanswered)
                self.go_on(good, following)
                self.bring_back(stuck, unanswered)
            else:
                done = produce(good, self.ledger.topic, unanswered)
                # One that is committed already is recognised without writing anything.
                assert done.error in RETRIABLE or (idempotent and done.error == 0)
                self.bring_back(stuck, unanswered)
                self.go_on(good, unanswered)
                self.go_on(good, following)
        for port in ports:
            self.ledger.check(port)

    def go_on(self, connection: Connection, batch: Batch) -> None:
        """Send to the broker that runs, again after answers that clients retry by themselves."""

        def accepted() -> Produced | None:
            done = produce(connection, self.ledger.topic, batch)
            assert done.error == 0 or done.error in RETRIABLE
            return done if done.error == 0 else None

        done = wait_until(accepted, "the other broker accepts", timeout_s=60)
        assert done is not None
        self.acknowledge(done, batch)

    def bring_back(self, stuck: Connection, unanswered: Batch) -> None:
        """Restart the killed broker; or resume the stopped one, which must then answer the old
        request: with the offsets at which the batch is, or with an error that clients retry."""
        if self.action == "kill":
            self.pair.struck.restart(self.fault)
        else:
            self.pair.resume()
            done = receive(stuck)
            assert done.error == 0 or done.error in RETRIABLE
            if done.error == 0:
                self.ledger.acknowledged(done.base_offset, unanswered.values)
            self.pair.wait_both()
            self.pair.struck.restart(self.fault)
        self.pair.wait_both()


@pytest.mark.parametrize("rounds", rounds(1))
@pytest.mark.parametrize("action", ["kill", "stop"])
@pytest.mark.parametrize("point", POINTS)
def test_another_broker_goes_on_and_nothing_is_lost_or_there_twice(
    pair: Pair, point: str, action: str, rounds: int
) -> None:
    strikes = Strikes(pair, point, action)
    for _ in range(rounds):
        strikes.run(idempotent=True)
        strikes.run(idempotent=False)
    expected = 2 * rounds * (FLUSHES_BEFORE_STRIKE + 1) * RECORDS_PER_BATCH
    assert strikes.ledger.acknowledged_count >= expected


def test_what_was_condemned_while_its_broker_stood_still_is_never_seen(tmp_path: Path) -> None:
    settings = {"wal_orphan_ttl_ms": "1000", "wal_gc_grace_ms": "0", "gc_interval_ms": "50"}
    pair = Pair(tmp_path, settings)
    try:
        strikes = Strikes(pair, "after-put", "stop")
        topic, objects = strikes.ledger.topic, pair.struck.data_dir / "objects"
        first, condemned, later = (Batch(strikes.values()) for _ in range(3))
        with Connection("127.0.0.1", pair.struck.kafka_port) as stuck:
            strikes.ledger.sent(first.values + later.values)
            strikes.acknowledge(produce(stuck, topic, first), first)
            before = set(objects.rglob("*.wo"))
            send(stuck, topic, condemned)
            (orphan,) = wait_until(lambda: set(objects.rglob("*.wo")) - before, "its object")
            if not pair.wait_struck("stop"):
                pytest.skip("it was stopped in the middle of a metadata write: nobody can collect")
            wait_until(lambda: not orphan.exists(), "the other broker collected the orphan")
            pair.resume()
            assert receive(stuck).error in RETRIABLE
            pair.wait_both()
            strikes.acknowledge(produce(stuck, topic, later), later)
        assert strikes.ledger.check(pair.other.kafka_port) == first.values + later.values
    finally:
        print(pair.end())
