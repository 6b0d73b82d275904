"""What happens beside a crowd: somebody produces, and somebody watches the committed offsets."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer
from tests.integration.groups_golden.connection import (
    ConnectionClosed,
    GoldenConnection,
    NoAnswer,
)
from tests.integration.harness.waiting import wait_until

from towpath.kafka.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)

RECORDS_PER_SECOND = 600
WATCH_INTERVAL_S = 0.1
SETTLE_TIMEOUT_S = 60.0
OFFSET_FETCH_VERSION = 8


class Traffic:
    """Produces at a steady rate to all partitions in turn, until stopped."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.written: dict[int, set[int]] = {}
        """The offsets that were acknowledged, by partition."""
        self.failures: list[str] = []
        self._topic = topic
        self._partitions = partitions
        self._client = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> dict[int, set[int]]:
        """Stop, deliver what is on its way, and tell where everything lies."""
        self._stop.set()
        self._thread.join(SETTLE_TIMEOUT_S)
        assert not self._thread.is_alive()
        assert self._client.flush(SETTLE_TIMEOUT_S) == 0
        assert not self.failures, self.failures[:3]
        return self.written

    def _run(self) -> None:
        started_s, sent = time.monotonic(), 0
        while not self._stop.wait(0.02):
            due = int((time.monotonic() - started_s) * RECORDS_PER_SECOND) - sent
            for _ in range(due):
                self._client.produce(
                    self._topic,
                    f"{sent}".encode(),
                    partition=sent % self._partitions,
                    on_delivery=self._settled,
                )
                sent += 1
            self._client.poll(0)

    def _settled(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.written.setdefault(message.partition(), set()).add(message.offset())


class OffsetWatch:
    """Reads the committed offsets from one broker after the other, and notes each that is lower
    than one that was read before."""

    def __init__(self, ports: list[int], group: str) -> None:
        self.reads = 0
        self.problems: list[str] = []
        self.seen: dict[tuple[str, int], int] = {}
        self._group = OffsetFetchRequestGroup(group_id=group, topics=None)
        self._every_port = ports
        self._ports = itertools.cycle(ports)
        self._connections: dict[int, GoldenConnection] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join(SETTLE_TIMEOUT_S)
        for connection in self._connections.values():
            connection.close()

    def look_again(self) -> None:
        """Until the offsets were read from every broker once more."""
        wanted = self.reads + len(self._every_port)
        wait_until(lambda: self.reads >= wanted, "committed offsets read again")

    def _run(self) -> None:
        while not self._stop.wait(WATCH_INTERVAL_S):
            port = next(self._ports)
            try:
                self._look(port)
            except (OSError, ConnectionClosed, NoAnswer):
                self._connections.pop(port, None)

    def _look(self, port: int) -> None:
        if port not in self._connections:
            self._connections[port] = GoldenConnection(port, "watch")
        request = OffsetFetchRequest(groups=[self._group])
        answer: Any = self._connections[port].send(request, OFFSET_FETCH_VERSION).read()
        group = answer.groups[0]
        if group.error_code != 0:
            return
        self.reads += 1
        now = {
            (topic.name, entry.partition_index): entry.committed_offset
            for topic in group.topics
            for entry in topic.partitions
        }
        for where, offset in self.seen.items():
            if now.get(where, -1) < offset:
                self.problems.append(f"{where} went from {offset} to {now.get(where)} at {port}")
        self.seen |= now


@contextmanager
def watching(ports: list[int], group: str) -> Iterator[OffsetWatch]:
    """Watch the committed offsets of a group for a while."""
    watch = OffsetWatch(ports, group)
    try:
        yield watch
    finally:
        watch.stop()
