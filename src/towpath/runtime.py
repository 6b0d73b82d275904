"""What the core may not reach for by itself: time, chance and threads.

Core code takes a `Runtime` and starts no threads, so that the same code runs in production and in
a simulated event loop with virtual time. Sleeping and time-outs go through asyncio (the simulation
replaces the loop); wall-clock time, randomness and work for other threads go through here.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, Protocol, TypeVar

from towpath.threads import WorkThreads

P = ParamSpec("P")
R = TypeVar("R")


class Clock(Protocol):
    """Wall-clock and monotonic time."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back while the machine runs; comparable across processes."""
        ...


class Offload(Protocol):
    """Runs work that releases the GIL (compression, checksums of large buffers, file I/O)."""

    async def __call__(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class ThreadOffload:
    """Runs work in a bounded number of threads."""

    def __init__(self, threads: WorkThreads) -> None:
        self._threads = threads

    async def __call__(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._threads.run(work, *args, **kwargs)


class InlineOffload:
    """Runs work at once on the calling thread; for tests and the simulation."""

    async def __call__(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return work(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class Runtime:
    """The process's sources of time, chance and parallelism, passed to every core object."""

    clock: Clock
    random: random.Random
    offload: Offload

    def uuid4(self) -> uuid.UUID:
        """A random UUID drawn from the injected randomness."""
        return uuid.UUID(int=self.random.getrandbits(128), version=4)


def inline_runtime(seed: int | None = None) -> Runtime:
    """A runtime on the system's clock without threads."""
    chance = random.SystemRandom() if seed is None else random.Random(seed)
    return Runtime(clock=SystemClock(), random=chance, offload=InlineOffload())
