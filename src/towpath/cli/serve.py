"""Runs one broker in this process until a signal, a failure, or the end of its supervisor."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from towpath.cli.errors import FAILED, CliError, complain

if TYPE_CHECKING:
    from towpath.broker import Broker
    from towpath.cli.companion import Companion
    from towpath.config import Settings

SIGNAL_EXIT_BASE = 128
STDIN_FD = 0
STDIN_CHUNK_BYTES = 4096
GC_YOUNG_OBJECTS = 50_000
GC_OLDER_ROUNDS = 50
"""New objects before a look at the young ones, and such looks before one at the older."""


MALLOC_OPTIONS = (
    (-8, 1),  # M_ARENA_MAX
    (-1, 8 << 20),  # M_TRIM_THRESHOLD
    (-3, 1 << 20),  # M_MMAP_THRESHOLD
)


class StopRequest:
    """The wish to stop, by signal or otherwise. A second signal ends the process at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    def install(self) -> None:
        """Take over SIGINT and SIGTERM of the running loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self.asked.is_set():
            os._exit(SIGNAL_EXIT_BASE + number)
        self.asked.set()

    def watch_supervisor(self) -> None:
        """Stop when stdin ends: the supervisor holds its other end, and is gone then."""

        def on_readable() -> None:
            if not os.read(STDIN_FD, STDIN_CHUNK_BYTES):
                asyncio.get_running_loop().remove_reader(STDIN_FD)
                self.asked.set()

        asyncio.get_running_loop().add_reader(STDIN_FD, on_readable)

    async def wait(self) -> None:
        """Return when a stop was asked for."""
        await self.asked.wait()


def run(
    settings: Settings,
    index: int,
    announce: Callable[[Broker], None],
    *,
    supervised: bool = False,
    companion: Companion | None = None,
) -> int:
    """Run broker `index` to its end: the exit code. `announce` is called when it serves, and then
    the companion is started."""
    import uvloop

    from towpath.observe import logging

    logging.configure(settings.log_level, settings.log_format)
    _give_memory_back()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings, index, announce, supervised, companion))


async def _serve(
    settings: Settings,
    index: int,
    announce: Callable[[Broker], None],
    supervised: bool,
    companion: Companion | None,
) -> int:
    stop = StopRequest()
    stop.install()
    if supervised:
        stop.watch_supervisor()
    broker = await _start(settings, index)
    _spare_the_garbage_collector()
    announce(broker)
    if companion is not None:
        companion.start()
    failure = await _until_stop_or_failure(broker, stop)
    if companion is not None:
        await companion.stop()
    await _stop(broker, settings.shutdown_timeout_ms)
    if failure is not None:
        raise CliError(f"the broker failed: {failure}")
    return 0


def _spare_the_garbage_collector() -> None:
    """Look for reference cycles seldom.

    A broker holds many requests and cache entries at once and makes hardly any cycles; with the
    interpreter's defaults a tenth of its time went into walking them (measured).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_YOUNG_OBJECTS, GC_OLDER_ROUNDS, GC_OLDER_ROUNDS)


def _give_memory_back() -> None:
    """Let the allocator return freed buffers to the system.

    Record batches come and go on several threads; with glibc's defaults each thread keeps a heap of
    its own and large buffers raise the limits from which memory is returned (measured: 364 MB
    resident after a mixed load against 330). Other C libraries have no `mallopt`.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        for option, value in MALLOC_OPTIONS:
            library.mallopt(option, value)


async def _start(settings: Settings, index: int) -> Broker:
    """The serving broker; what a user can put right becomes one line."""
    from towpath.broker import Broker
    from towpath.errors import TowpathError
    from towpath.metadata.store import MetadataError
    from towpath.objects.store import ObjectStoreError

    broker = Broker(settings, index)
    try:
        await broker.start()
    except (OSError, TowpathError, MetadataError, ObjectStoreError) as error:
        raise CliError(f"cannot start: {error}") from error
    return broker


async def _until_stop_or_failure(broker: Broker, stop: StopRequest) -> str | None:
    """None when a stop was asked for, else why the broker failed."""
    stopping = asyncio.create_task(stop.wait())
    failing = asyncio.create_task(broker.wait_failed())
    done, pending = await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    if failing not in done:
        return None
    error = failing.exception()
    return "a background part ended" if error is None else (str(error) or type(error).__name__)


async def _stop(broker: Broker, timeout_ms: int) -> None:
    """Drain and close; past the time-out the process ends without waiting any longer."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await broker.stop()
    except TimeoutError:
        complain(f"did not stop within shutdown_timeout_ms = {timeout_ms}; ending now")
        sys.stdout.flush()
        os._exit(FAILED)
