"""One domain's write path: buffer, upload, commit in order.

Uploads overlap, up to a limit; commits of a domain happen in the order in which the buffers were
sealed, so appends of one stream keep their order. Every appended batch gets exactly one answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from towpath.errors import LogClosed, LogUnavailable, TowpathError
from towpath.log.interface import Receipt
from towpath.log.object.buffer import Buffer, Pending, Room
from towpath.log.object.committer import Committer, Upload
from towpath.log.object.pace import Pace
from towpath.log.object.settings import ObjectLogSettings
from towpath.log.object.staging import Staging
from towpath.log.object.wal_format import encode_wal
from towpath.metadata.store import MetadataError
from towpath.objects.store import ObjectStore, ObjectStoreError
from towpath.observe.metrics import Metrics
from towpath.records.batch import BatchInfo
from towpath.runtime import Runtime

logger = structlog.get_logger(__name__)

Checkpoint = Callable[[str], None]
"""Called with the name of each step of a flush; tests stop the process there."""


class DomainWriter:
    """Takes batches and settles their receipts once they are durable and committed."""

    def __init__(
        self,
        domain: int,
        objects: ObjectStore,
        staging: Staging,
        committer: Committer,
        room: Room,
        runtime: Runtime,
        settings: ObjectLogSettings,
        metrics: Metrics,
        checkpoint: Checkpoint,
    ) -> None:
        self._domain = domain
        self._objects = objects
        self._staging = staging
        self._committer = committer
        self._room = room
        self._runtime = runtime
        self._settings = settings
        self._metrics = metrics
        self._checkpoint = checkpoint
        self._loop = asyncio.get_running_loop()
        self._pace = Pace(settings.flush_max_objects_per_second, self._loop.time())
        self._open: Buffer | None = None
        self._sealed: deque[Buffer] = deque()
        self._flushes: set[asyncio.Task[None]] = set()
        self._last_commit: asyncio.Future[None] | None = None
        self._taking = asyncio.Lock()
        self._timer: asyncio.Handle | None = None
        self._closing = False

    async def prepare(self) -> None:
        """Reserve walIds ahead."""
        async with self._taking:
            await self._staging.prepare()

    def append(self, stream_id: int, batch: BatchInfo, receipt: Receipt) -> None:
        """Enqueue a batch behind everything appended before it."""
        if self._closing:
            receipt.settle(LogClosed("the log is closed"))
            return
        buffer = self._open
        if buffer is None:
            buffer = self._open = Buffer(opened_at=self._loop.time())
            self._schedule(0.0)
        buffer.add(stream_id, Pending(batch, receipt))
        self._room.take(len(batch.data))
        if buffer.size_bytes >= self._settings.flush_max_bytes:
            self._sealed.append(buffer)
            self._open = None
            self._schedule(0.0)

    async def close(self) -> None:
        """Flush everything that was appended, then give back the reserved walIds."""
        self._closing = True
        while self._open is not None or self._sealed or self._flushes:
            self._start_due_flushes()
            await asyncio.wait(self._flushes)
        if self._timer is not None:
            self._timer.cancel()
        await self._staging.close()

    # Deciding when to flush

    def _schedule(self, delay: float) -> None:
        """Look again after `delay`. The shortest delay is the end of this turn of the loop, so
        that all requests that arrived together share an object."""
        if self._timer is not None:
            self._timer.cancel()
        if delay <= 0.0:
            self._timer = self._loop.call_soon(self._on_timer)
        else:
            self._timer = self._loop.call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._start_due_flushes()

    def _start_due_flushes(self) -> None:
        while len(self._flushes) < self._settings.max_inflight_flushes:
            if self._sealed:
                self._start(self._sealed.popleft())
                continue
            if self._open is None:
                return
            wait = self._open_buffer_wait(self._open)
            if wait is None:
                return
            if wait > 0.0:
                self._schedule(wait)
                return
            buffer, self._open = self._open, None
            self._start(buffer)

    def _open_buffer_wait(self, buffer: Buffer) -> float | None:
        """Seconds until the open buffer is due; None if the end of a running flush decides."""
        if self._closing:
            return 0.0
        now = self._loop.time()
        linger = self._settings.linger_ms / 1000
        if linger == 0.0:
            # Overlapping flushes of few batches were tried: at 1,000 records/s they cost twice the
            # CPU time and the median latency doubled with it.
            return None if self._flushes else self._pace.delay(now)
        return max(buffer.opened_at + linger - now, self._pace.delay(now))

    def _start(self, buffer: Buffer) -> None:
        self._pace.spend(self._loop.time())
        before, self._last_commit = self._last_commit, self._loop.create_future()
        flush = self._loop.create_task(self._flush(buffer, before, self._last_commit))
        self._flushes.add(flush)
        flush.add_done_callback(self._flush_ended)

    def _flush_ended(self, flush: asyncio.Task[None]) -> None:
        self._flushes.discard(flush)
        if not flush.cancelled() and (error := flush.exception()) is not None:
            logger.error("flush broke", domain=self._domain, exc_info=error)
        self._start_due_flushes()

    # One flush

    async def _flush(
        self,
        buffer: Buffer,
        before: asyncio.Future[None] | None,
        committed: asyncio.Future[None],
    ) -> None:
        started = self._loop.time()
        try:
            upload = await self._upload(buffer)
            if before is not None and not before.done():
                await before
            await self._committer.commit(upload)
            self._checkpoint("after-commit")
            upload.answer()
            self._metrics.wal_flush_seconds.observe(self._loop.time() - started)
        except (TowpathError, MetadataError) as error:
            await self._fail(buffer, before, error)
        except BaseException as error:
            # A bug or a cancelled loop: nobody who appended may be left waiting.
            self._answer_failure(buffer, LogUnavailable(f"flush failed: {error!r}"))
            raise
        finally:
            committed.set_result(None)
            self._room.give_back(buffer.size_bytes)

    async def _upload(self, buffer: Buffer) -> Upload:
        async with self._taking:
            slot = await self._staging.take()
        created_at_ms = self._runtime.clock.now_ms()
        image = encode_wal(
            slot.wal_id,
            self._domain,
            created_at_ms,
            [
                (stream_id, [pending.batch for pending in chunk])
                for stream_id, chunk in buffer.chunks.items()
            ],
        )
        self._checkpoint("before-put")
        try:
            await self._objects.put(slot.path, image.parts)
        except ObjectStoreError as error:
            self._metrics.wal_flush_failures.labels("put").inc()
            await self._staging.abandon(slot)
            raise LogUnavailable(f"object store refused {slot.path}: {error}") from error
        self._metrics.wal_flush_bytes.observe(image.size_bytes)
        self._checkpoint("after-put")
        return Upload(slot, created_at_ms, image, buffer)

    async def _fail(
        self, buffer: Buffer, before: asyncio.Future[None] | None, error: Exception
    ) -> None:
        if not isinstance(error, TowpathError):
            error = LogUnavailable(f"metadata store failed: {error}")
        logger.warning(
            "flush failed",
            domain=self._domain,
            streams=len(buffer.chunks),
            size_bytes=buffer.size_bytes,
            error=str(error),
        )
        # Sequences that came before must be judged first, or a producer's next batch could pass.
        if before is not None and not before.done():
            await before
        self._committer.note_failure(buffer)
        self._answer_failure(buffer, error)

    @staticmethod
    def _answer_failure(buffer: Buffer, error: Exception) -> None:
        for chunk in buffer.chunks.values():
            for pending in chunk:
                pending.receipt.settle(error)
