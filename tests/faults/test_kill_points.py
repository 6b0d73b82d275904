"""A broker that kills itself at a named place of a flush, again and again on one data directory.

After each restart: every acknowledged record is at its acknowledged offset with the same bytes,
offsets have no gaps, a flush that died before its commit left nothing, and one that died after it
left all of it, once, also when an idempotent producer sent it again.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults.processes.rounds import rounds
from tests.integration.harness.admin import create_topic
from tests.integration.harness.clients import producer
from tests.integration.harness.raw_batches import decode_batches, encode_batch
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.wire import Connection

pytestmark = [pytest.mark.needs_server, pytest.mark.timeout(150)]

SESSION_TIMEOUT_MS = "1000"
RECORDS_PER_REQUEST = 3
REQUESTS_MAX = 12
"""Of one round: a fault that has not struck by then does not work."""

VISIBLE_AFTER = {"before-put": False, "after-put": False, "after-commit": True}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TowpathProcess]:
    """A broker, not yet started."""
    # A restarted broker waits until its dead predecessor's session has ended.
    process = TowpathProcess(tmp_path, settings={"session_timeout_ms": SESSION_TIMEOUT_MS})
    yield process
    process.kill()
    print(process.process.log_tail())


class History:
    """What was acknowledged, and how the rounds go on from there."""

    def __init__(self, server: TowpathProcess, point: str, seed: int) -> None:
        self.server = server
        self.point = point
        self.random = random.Random(seed)
        self.topic = ""
        self.expected: list[bytes] = []
        """Every record that must be in the log, by offset."""
        self._numbers = iter(range(1_000_000))
        self._client: Any = None

    def fault(self) -> dict[str, str]:
        """The environment of the next life. The first flush always succeeds: it may be the retry
        of the request that the last life left behind."""
        after = str(self.random.randint(2, 4))
        return {"TOWPATH_FAULT_POINT": self.point, "TOWPATH_FAULT_AFTER": after}

    def values(self) -> list[bytes]:
        """New, distinct values."""
        size = self.random.choice((0, 10, 5000))
        return [b"%d-" % next(self._numbers) + b"x" * size for _ in range(RECORDS_PER_REQUEST)]

    def produce_plain_until_death(self) -> list[bytes]:
        """Send requests one at a time until one gets no answer; the values of that one."""
        with Connection("127.0.0.1", self.server.kafka_port) as connection:
            for _ in range(REQUESTS_MAX):
                values = self.values()
                batch = encode_batch(values, timestamp_ms=int(time.time() * 1000))
                try:
                    done = connection.produce(self.topic, 0, batch)
                except (ConnectionError, TimeoutError):
                    return values
                assert (done.error, done.base_offset) == (0, len(self.expected))
                self.expected += values
        raise AssertionError(f"the fault {self.point} did not strike")

    def produce_idempotent_until_death(self) -> tuple[list[bytes], list[int]]:
        """As above with a client that will retry by itself: the values of the unanswered request,
        and the list into which their offsets come when they are acknowledged."""
        if self._client is None:
            self._client = producer(
                self.server.bootstrap,
                enable_idempotence=True,
                linger_ms=20,
                reconnect_backoff_ms=20,
                reconnect_backoff_max_ms=100,
                retry_backoff_ms=20,
            )
        for _ in range(REQUESTS_MAX):
            values = self.values()
            offsets: list[int] = []
            for value in values:
                self._client.produce(
                    self.topic,
                    value,
                    partition=0,
                    on_delivery=lambda error, m, to=offsets: to.append(_offset(error, m)),
                )
            while len(offsets) < len(values):
                if self.server.process.exit_code() is not None:
                    return values, offsets
                self._client.poll(0.02)
            self.acknowledge(values, offsets)
        raise AssertionError(f"the fault {self.point} did not strike")

    def finish_idempotent(self, values: list[bytes], offsets: list[int]) -> None:
        """After the restart: the client has delivered everything, once."""
        assert self._client.flush(60) == 0
        self.acknowledge(values, offsets)

    def acknowledge(self, values: list[bytes], offsets: list[int]) -> None:
        """Remember records whose offsets must be the next ones."""
        first = len(self.expected)
        assert offsets == list(range(first, first + len(values)))
        self.expected += values

    def check(self, since: int = 0) -> None:
        """The log from an offset on is exactly what is expected."""
        with Connection("127.0.0.1", self.server.kafka_port) as connection:
            seen: dict[int, bytes] = {}
            at = since
            while records := list(decode_batches(connection.fetch(self.topic, 0, at).records)):
                seen.update((offset, value) for offset, value in records if offset >= since)
                at = records[-1][0] + 1
            assert connection.list_offset(self.topic, 0, -1)[2] == len(self.expected)
        assert seen == dict(enumerate(self.expected[since:], since))

    def plain_round(self) -> None:
        """Die with a plain request in flight."""
        since = len(self.expected)
        unanswered = self.produce_plain_until_death()
        self.expect_suicide()
        self.server.restart(self.fault())
        if VISIBLE_AFTER[self.point]:
            self.expected += unanswered
        self.check(since)

    def idempotent_round(self) -> None:
        """Die with an idempotent client's request in flight."""
        since = len(self.expected)
        values, offsets = self.produce_idempotent_until_death()
        self.expect_suicide()
        self.server.restart(self.fault())
        self.finish_idempotent(values, offsets)
        self.check(since)

    def expect_suicide(self) -> None:
        """The broker is gone because of the fault, not because of a failure of its own."""
        assert self.server.process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("rounds", rounds(20))
@pytest.mark.parametrize("point", sorted(VISIBLE_AFTER))
def test_nothing_acknowledged_is_lost_and_nothing_half_done_is_seen(
    server: TowpathProcess, point: str, rounds: int
) -> None:
    history = History(server, point, seed=len(point))
    server.restart(history.fault())
    history.topic = create_topic(server.bootstrap, partitions=2)
    for _ in range(rounds // 2):
        history.plain_round()
        history.idempotent_round()
    server.kill()
    server.restart()
    history.check()


def _offset(error: Any, message: Any) -> int:
    assert error is None, error
    offset: int = message.offset()
    return offset
