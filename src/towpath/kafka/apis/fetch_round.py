"""One round of a fetch: what the log holds for the asked partitions now, within the limits.

A fetch of one partition reads it. A fetch of several asks for the bounds of all in one call and
reads only those that hold data, several at once; an idle partition costs no read, nor does one that
the client is sent to another broker for. Either way the finding that a partition is at its end
comes from the store itself (the log's promise).
"""

from __future__ import annotations

from asyncio import TaskGroup
from collections.abc import Sequence
from dataclasses import dataclass

from towpath.errors import OffsetOutOfRange, StreamGone, TowpathError
from towpath.kafka.apis.concurrently import CONCURRENT_CALLS_MAX, for_streams
from towpath.kafka.apis.partitions import LEADER_EPOCH
from towpath.kafka.errors import ErrorCode, error_code_of
from towpath.log.interface import Bounds, Log
from towpath.objects.store import Buffer


@dataclass(slots=True)
class FetchPart:
    """One asked partition and what the last round found.

    `error` is fixed for a partition that was refused before the log was asked; such a part is not
    `readable`.
    """

    index: int
    stream_id: int
    offset: int
    max_bytes: int
    last_fetched_epoch: int
    readable: bool
    error: ErrorCode
    nearer: int | None = None
    """The broker that the client is sent to instead of getting records here."""
    bounds: Bounds | None = None
    buffers: Sequence[Buffer] = ()
    size_bytes: int = 0
    diverging: bool = False
    """The client has read beyond the log end in the epoch it names."""

    @property
    def is_settled(self) -> bool:
        """Whether this part must be answered at once rather than waited for."""
        return bool(self.error) or self.diverging or self.nearer is not None

    def out_of_range(self, bounds: Bounds) -> None:
        """Take over that the offset lies outside `bounds`."""
        if self.last_fetched_epoch == LEADER_EPOCH and self.offset > bounds.end:
            self.bounds = bounds
            self.diverging = True
        else:
            self.error = ErrorCode.OFFSET_OUT_OF_RANGE

    def forget(self) -> None:
        """Let go of the records and of what was found, before another round or a wait."""
        self.buffers = ()
        self.size_bytes = 0


async def read_round(log: Log, parts: Sequence[FetchPart], max_bytes: int) -> int:
    """Fill in every readable part; returns the bytes of all records found.

    The first part with data gets at least one batch, even one larger than its limits; all others
    stay within `max_bytes` together. Earlier parts go first.
    """
    asked = [part for part in parts if part.readable]
    for part in asked:
        part.forget()
    if len(asked) == 1 and asked[0].nearer is None:
        await _read(log, asked[0], min(asked[0].max_bytes, max_bytes), min_one=True)
    elif asked:
        await _look(log, asked)
        await _read_in_waves(log, [part for part in asked if _has_data(part)], max_bytes)
    return sum([part.size_bytes for part in parts])


async def _look(log: Log, parts: Sequence[FetchPart]) -> None:
    try:
        found = await for_streams([part.stream_id for part in parts], log.bounds)
    except TowpathError as failure:
        for part in parts:
            part.error = error_code_of(failure)
        return
    for part, bounds in zip(parts, found, strict=True):
        if isinstance(bounds, StreamGone):
            part.error = error_code_of(bounds)
        elif bounds.start <= part.offset <= bounds.end:
            part.bounds = bounds
        else:
            part.out_of_range(bounds)


def _has_data(part: FetchPart) -> bool:
    return not part.is_settled and part.bounds is not None and part.offset < part.bounds.end


async def _read_in_waves(log: Log, parts: Sequence[FetchPart], max_bytes: int) -> None:
    """Read in waves of a few parts at once, whose limits together fit into what is left."""
    left_bytes = max_bytes
    found_any = False
    at = 0
    while at < len(parts) and (left_bytes > 0 or not found_any):
        wave: list[FetchPart] = []
        free_bytes = left_bytes
        async with TaskGroup() as group:
            while at < len(parts) and len(wave) < CONCURRENT_CALLS_MAX:
                part = parts[at]
                min_one = not found_any and not wave
                if free_bytes <= 0 and not min_one:
                    break
                limit_bytes = min(part.max_bytes, free_bytes)
                group.create_task(_read(log, part, limit_bytes, min_one=min_one))
                free_bytes -= limit_bytes
                wave.append(part)
                at += 1
        wave_bytes = _fit(wave, left_bytes)
        left_bytes -= wave_bytes
        found_any = found_any or wave_bytes > 0


def _fit(wave: Sequence[FetchPart], left_bytes: int) -> int:
    """The bytes of the wave, after its last parts were dropped as long as it is too large.

    It is when the first batch of all exceeded its part's limit; that one always stays.
    """
    wave_bytes = sum([part.size_bytes for part in wave])
    for part in reversed(wave[1:]):
        if wave_bytes <= left_bytes:
            break
        wave_bytes -= part.size_bytes
        part.forget()
    return wave_bytes


async def _read(log: Log, part: FetchPart, limit_bytes: int, *, min_one: bool) -> None:
    try:
        found = await log.read(part.stream_id, part.offset, max(0, limit_bytes), min_one=min_one)
    except OffsetOutOfRange as failure:
        part.out_of_range(Bounds(failure.log_start, failure.log_end))
    except TowpathError as failure:
        part.error = error_code_of(failure)
    else:
        part.bounds = found.bounds
        part.buffers = found.buffers
        part.size_bytes = found.size_bytes
