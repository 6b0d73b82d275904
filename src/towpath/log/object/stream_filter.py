"""Which streams still exist, as the topics know it; the log itself knows no topics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

StreamFilter = Callable[[int], bool]
"""Whether a stream's topic exists. May be a moment behind: late appends are swept."""

Freshen = Callable[[], Awaitable[None]]
"""After this the filter knows every change committed before the call."""


def every_stream(stream_id: int) -> bool:
    """For logs without topics: every stream exists."""
    return stream_id >= 0


async def always_fresh() -> None:
    """For logs without topics: there is nothing to learn."""
