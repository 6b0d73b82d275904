"""Requests that are sent over and over, each as soon as the last one is answered.

They are encoded once, and answers must be byte for byte the first one, which was decoded; so little
of what is measured is the generator's own work.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from typing import Any

from bench.groups.raw_member import OFFSET_BYTES, OFFSET_MARK, RawMember
from bench.groups.wire import WrongAnswer
from bench.process_stats import cpu_seconds

SETTLE_S = 0.3
"""For the last answers to come."""
MS = 1e-6
"""Of a nanosecond."""


class Count:
    """What several repeaters have done since `reset`."""

    def __init__(self) -> None:
        self.is_open = True
        self.latencies_ns: list[int] = []
        self.failure: Exception | None = None

    def reset(self) -> None:
        """Count anew."""
        self.latencies_ns = []


class Repeater:
    """Sends a member's request again as soon as the last one is answered."""

    def __init__(self, member: RawMember, frame: bytes, expected: bytes, count: Count) -> None:
        self._connection = member.connection
        self._frame = frame
        self._expected = expected
        self._count = count
        self._sent_ns = 0
        self._offset = 0
        self._offset_at = frame.find(OFFSET_MARK.to_bytes(OFFSET_BYTES))
        """Where the offset is that grows with each request; -1: nowhere."""
        member.connection.on_frame(self._on_frame)

    def send(self) -> None:
        """Send the next request."""
        frame, at = self._frame, self._offset_at
        if at >= 0:
            self._offset += 1
            frame = b"".join(
                (frame[:at], self._offset.to_bytes(OFFSET_BYTES), frame[at + OFFSET_BYTES :])
            )
        self._sent_ns = time.perf_counter_ns()
        self._connection.write(frame)

    def _on_frame(self, frame: bytes) -> None:
        count = self._count
        count.latencies_ns.append(time.perf_counter_ns() - self._sent_ns)
        if frame != self._expected:
            count.failure = WrongAnswer(f"an answer was {frame!r}, not {self._expected!r}")
        elif count.is_open:
            self.send()


async def repeat(repeaters: Sequence[Repeater], count: Count, question: dict[str, Any]) -> Any:
    """Let them all run; how many answers there were, in which time."""
    for repeater in repeaters:
        repeater.send()
    await asyncio.sleep(question["warmup_s"])
    count.reset()
    pids = question["pids"]
    cpu_s, own_s, began = cpu_seconds(pids), time.process_time(), time.perf_counter()
    await asyncio.sleep(question["seconds"])
    seconds, latencies = time.perf_counter() - began, count.latencies_ns
    used_s, own_s = cpu_seconds(pids) - cpu_s, time.process_time() - own_s
    count.is_open = False
    count.reset()
    await asyncio.sleep(SETTLE_S)
    if count.failure is not None:
        raise count.failure
    cuts = statistics.quantiles(latencies, n=100)
    return {
        "per_second": len(latencies) / seconds,
        "p50_ms": cuts[49] * MS,
        "p99_ms": cuts[98] * MS,
        "broker_cpu_cores": used_s / seconds,
        "generator_cpu_cores": own_s / seconds,
    }
