"""Ranges of objects in order, some of them read before they are asked for.

On an object store a small read is mostly a wait, and a job has thousands of them. The threads only
wait; the order, the bytes and the first error are those of one read after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from towpath.objects.store import Buffer
from towpath.objects.worker import WorkerObjects

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

AHEAD_BYTES_MAX: Final = 32 << 20
"""Bytes that are read or being read and not yet asked for; one range may be larger by itself."""


class ObjectRange(Protocol):
    """Bytes of one object."""

    @property
    def path(self) -> str: ...
    @property
    def position(self) -> int: ...
    @property
    def length(self) -> int: ...


R = TypeVar("R", bound=ObjectRange)


def read_in_order(
    objects: WorkerObjects, ranges: Iterable[R]
) -> Generator[tuple[R, Buffer], None, None]:
    """Each range with its bytes. A read that fails raises its error when its turn comes; whoever
    stops early waits for the reads that have begun, and no others begin."""
    if objects.reads_at_once <= 1:
        for part in ranges:
            yield part, objects.read(part.path, part.position, part.length)
        return
    # Takes time to load, and files do not need it.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(objects.reads_at_once, "read-ahead") as threads:
        try:
            yield from _read_ahead(threads, objects, iter(ranges))
        finally:
            threads.shutdown(cancel_futures=True)


def _read_ahead(
    threads: ThreadPoolExecutor, objects: WorkerObjects, ranges: Iterator[R]
) -> Iterator[tuple[R, Buffer]]:
    ahead: deque[tuple[R, Future[Buffer]]] = deque()
    ahead_bytes = 0
    upcoming = next(ranges, None)
    while ahead or upcoming is not None:
        while (
            upcoming is not None
            and len(ahead) < objects.reads_at_once
            and (not ahead or ahead_bytes + upcoming.length <= AHEAD_BYTES_MAX)
        ):
            read = threads.submit(objects.read, upcoming.path, upcoming.position, upcoming.length)
            ahead.append((upcoming, read))
            ahead_bytes += upcoming.length
            upcoming = next(ranges, None)
        part, read = ahead.popleft()
        ahead_bytes -= part.length
        yield part, read.result()
