"""Loads the compiled walk in the background and hands it out once it is ready.

Until then, and for ever if it cannot be compiled here, callers use the Python walk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from towpath.objects.store import Buffer
from towpath.records.walk import Walked
from towpath.runtime import Offload

if TYPE_CHECKING:
    import asyncio

logger = structlog.get_logger(__name__)

Kernel = Callable[[Buffer, int, int, bool], Walked]
"""The compiled walk, called like `records.walk.walk`."""

_loaded: Kernel | None = None


def kernel() -> Kernel | None:
    """The compiled walk, or None while it is not loaded."""
    return _loaded


def load_in_background(loop: asyncio.AbstractEventLoop, offload: Offload) -> asyncio.Task[bool]:
    """Start loading on `loop`; the task's result says whether the kernel is there.

    The caller keeps the task and may cancel it; a load that is under way then ends by itself.
    """
    return loop.create_task(_load(offload), name="load-kernels")


async def _load(offload: Offload) -> bool:
    try:
        await offload(load)
    except Exception as error:  # noqa: BLE001  (a broken compiler must not stop the broker)
        logger.warning("kernel not loaded, records are walked in Python", error=repr(error))
        return False
    return True


def load() -> Kernel:
    """Compile the walk, or load it from the cache, on the calling thread. Takes seconds at first.

    May be called again: the second call returns at once.
    """
    global _loaded
    if _loaded is None:
        _loaded = _warm()
    return _loaded


def _warm() -> Kernel:
    import numpy as np

    from towpath.records.kernels.walk import walk as compiled

    def walk(payload: Buffer, count: int, base_timestamp_ms: int, require_keys: bool) -> Walked:
        # Writable and read-only arrays would be compiled separately.
        data = np.frombuffer(memoryview(payload).toreadonly(), np.uint8)
        return Walked._make(compiled(data, count, base_timestamp_ms, require_keys))

    walk(b"\x00", 1, 0, False)
    return walk
