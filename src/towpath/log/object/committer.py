"""The commit of one WAL object: judge idempotent batches, write the index, settle what is unclear.

One metadata commit makes all chunks of an object visible or none. Batches of idempotent producers
are judged here, at the tail they will be appended to: a duplicate or a gap is left out of the index
entry (its bytes stay in the object, unreferenced), and the commit is conditional on that tail.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from towpath.errors import LogUnavailable, StreamGone, TowpathError
from towpath.log.interface import Appended
from towpath.log.object import entries
from towpath.log.object.buffer import Buffer, Pending
from towpath.log.object.build_entry import build_entry
from towpath.log.object.index import Index
from towpath.log.object.lost_sequences import LostSequences
from towpath.log.object.producer_states import ProducerStates, apply_entry
from towpath.log.object.range_cache import RangeCache
from towpath.log.object.settings import ObjectLogSettings
from towpath.log.object.staging import Slot, Staging
from towpath.log.object.stream_filter import StreamFilter
from towpath.log.object.wal_format import ChunkImage, WalImage
from towpath.log.producers import ProducerTable, SeenBatch
from towpath.metadata.keys import streams, wal
from towpath.metadata.proto import index_pb2
from towpath.metadata.store import (
    Append,
    Committed,
    Condition,
    ConditionFailed,
    KeyIs,
    MetadataStore,
    OutcomeUnknown,
    Put,
    StoreUnavailable,
    Tail,
    TailIs,
)
from towpath.objects import store as objects
from towpath.observe.metrics import Metrics
from towpath.records.batch import stamp
from towpath.runtime import Runtime

MAX_SETTLE_ATTEMPTS = 10
SETTLE_DELAY_SECONDS = 0.2


@dataclass(slots=True)
class Upload:
    """A buffer whose object is durable, and the answers its batches will get."""

    slot: Slot
    created_at_ms: int
    image: WalImage
    buffer: Buffer
    answers: list[tuple[Pending, Appended | TowpathError]] = field(default_factory=list)

    def answer(self) -> None:
        """Settle every receipt with what the commit decided."""
        for pending, result in self.answers:
            pending.receipt.settle(result)


@dataclass(slots=True)
class _Plan:
    """What one attempt would commit of one chunk."""

    stream_id: int
    chunk: ChunkImage
    accepted: list[tuple[Pending, int]]
    """Each batch with the position of its row in the chunk."""
    value: index_pb2.IndexEntry
    table: ProducerTable | None


class Committer:
    """Commits uploads of one domain, one at a time, in order."""

    def __init__(
        self,
        domain: int,
        store: MetadataStore,
        staging: Staging,
        index: Index,
        ranges: RangeCache,
        producers: ProducerStates,
        lost: LostSequences,
        live: StreamFilter,
        runtime: Runtime,
        settings: ObjectLogSettings,
        metrics: Metrics,
    ) -> None:
        self._domain = domain
        self._store = store
        self._staging = staging
        self._index = index
        self._ranges = ranges
        self._producers = producers
        self._lost = lost
        self._live = live
        self._runtime = runtime
        self._settings = settings
        self._metrics = metrics

    async def commit(self, upload: Upload) -> None:
        """Make the upload visible and fill in its answers. Raises LogUnavailable if it is not."""
        for _ in range(self._settings.max_commit_attempts):
            upload.answers.clear()
            plans = await self._plan(upload)
            if not plans:
                # Every batch was a duplicate or refused: the object holds nothing of use.
                await self._staging.discard(upload.slot)
                return
            try:
                committed = await self._write(upload, plans)
            except ConditionFailed as conflict:
                await self._after_conflict(upload, conflict)
                continue
            self._publish(upload, plans, committed)
            await self._staging.settle(upload.slot)
            return
        self._metrics.wal_flush_failures.labels("commit").inc()
        await self._staging.discard(upload.slot)
        raise LogUnavailable("too many brokers append to the same producer's streams")

    def note_failure(self, buffer: Buffer) -> None:
        """Remember what was lost, so that no producer's later batch is taken in its place."""
        for stream_id, chunk in buffer.chunks.items():
            for pending in chunk:
                batch = pending.batch
                if batch.producer_id >= 0:
                    self._lost.note(
                        stream_id, batch.producer_id, batch.producer_epoch, batch.base_sequence
                    )

    # Planning

    async def _plan(self, upload: Upload) -> list[_Plan]:
        tables = await self._tables(upload.buffer)
        plans = []
        for chunk in upload.image.chunks:
            pendings = upload.buffer.chunks[chunk.stream_id]
            if not self._live(chunk.stream_id):
                gone = StreamGone(f"stream {chunk.stream_id} was deleted")
                upload.answers.extend((pending, gone) for pending in pendings)
                continue
            plan = self._plan_chunk(upload, chunk, pendings, tables.get(chunk.stream_id))
            if plan is not None:
                plans.append(plan)
        return plans

    async def _tables(self, buffer: Buffer) -> dict[int, ProducerTable]:
        """The producer tables of the streams that need one."""
        idempotent = [
            stream_id
            for stream_id, pendings in buffer.chunks.items()
            if any(pending.batch.producer_id >= 0 for pending in pendings)
        ]
        return await self._producers.at_tails(idempotent) if idempotent else {}

    def _plan_chunk(
        self,
        upload: Upload,
        chunk: ChunkImage,
        pendings: list[Pending],
        table: ProducerTable | None,
    ) -> _Plan | None:
        accepted = list(zip(pendings, range(len(pendings)), strict=True))
        if table is not None:
            accepted = self._judge(upload, chunk.stream_id, table, accepted)
        if not accepted:
            return None
        batches = [(pending.batch, at) for pending, at in accepted]
        value = build_entry(
            upload.slot.wal_id, upload.slot.path, upload.created_at_ms, chunk, batches
        )
        return _Plan(chunk.stream_id, chunk, accepted, value, table)

    def _judge(
        self,
        upload: Upload,
        stream_id: int,
        table: ProducerTable,
        candidates: list[tuple[Pending, int]],
    ) -> list[tuple[Pending, int]]:
        """The batches that may be appended; the others get their answers."""
        scratch = table.copy_of({pending.batch.producer_id for pending, _ in candidates})
        accepted = []
        offset = table.offset_end
        twins: list[tuple[Pending, int]] = []
        for pending, at in candidates:
            batch = pending.batch
            if batch.producer_id >= 0:
                duplicate = scratch.duplicate_of(batch)
                if duplicate is not None:
                    self._metrics.duplicate_batches.inc()
                    twins.append((pending, duplicate))
                    continue
                try:
                    scratch.check(batch)
                    known = scratch.knows(batch.producer_id)
                    self._lost.check(stream_id, batch, producer_is_known=known)
                except TowpathError as refusal:
                    upload.answers.append((pending, refusal))
                    continue
                seen = SeenBatch(batch.base_sequence, batch.last_sequence, offset)
                scratch.apply(batch.producer_id, batch.producer_epoch, seen, upload.created_at_ms)
            accepted.append((pending, at))
            offset += batch.record_count
        log_start = self._log_start(stream_id)
        upload.answers.extend(
            (pending, Appended(base_offset, log_start)) for pending, base_offset in twins
        )
        return accepted

    # Writing

    async def _write(self, upload: Upload, plans: list[_Plan]) -> Committed:
        slot = upload.slot
        record = wal.WalObject(
            slot.path,
            upload.created_at_ms,
            upload.image.size_bytes,
            tuple(plan.stream_id for plan in plans),
        )
        appends = [
            Append(
                plan.stream_id,
                plan.value.record_count,
                plan.chunk.chunk_length,
                plan.value.SerializeToString(),
            )
            for plan in plans
        ]
        if not self._store.supports_conditions and not self._staging.may_commit(slot):
            raise LogUnavailable(f"walId {slot.wal_id} is too old to be committed")
        try:
            return await self._store.commit(
                self._domain,
                appends=appends,
                puts=[Put(wal.wal_object(self._domain, slot.wal_id), record.encode())],
                expect=self._conditions(slot, plans),
            )
        except StoreUnavailable as error:
            self._metrics.wal_flush_failures.labels("commit").inc()
            await self._staging.discard(slot)
            raise LogUnavailable(f"metadata store refused the commit: {error}") from error
        except OutcomeUnknown as error:
            self._metrics.wal_flush_failures.labels("commit").inc()
            return await self._settle(upload, plans, error)

    def _conditions(self, slot: Slot, plans: list[_Plan]) -> list[Condition]:
        if not self._store.supports_conditions:
            return []
        conditions: list[Condition] = [KeyIs(slot.block.marker_key, slot.block.marker_version)]
        conditions.extend(
            TailIs(plan.stream_id, plan.table.offset_end)
            for plan in plans
            if plan.table is not None
        )
        return conditions

    async def _after_conflict(self, upload: Upload, conflict: ConditionFailed) -> None:
        self._metrics.commit_retries.inc()
        if any(isinstance(condition, KeyIs) for condition in conflict.failed):
            self._staging.condemned(upload.slot)
            await self._staging.discard(upload.slot)
            raise LogUnavailable(f"walId {upload.slot.wal_id} was condemned as an orphan")

    async def _settle(self, upload: Upload, plans: list[_Plan], cause: OutcomeUnknown) -> Committed:
        """Look whether an ambiguous commit happened; it is never sent again."""
        key = wal.wal_object(self._domain, upload.slot.wal_id)
        for attempt in range(MAX_SETTLE_ATTEMPTS):
            try:
                found = await self._store.get(key)
                if found is None:
                    break
                tails = [await self._committed_tail(upload, plan) for plan in plans]
                return Committed(tuple(tails), found.version)
            except (StoreUnavailable, OutcomeUnknown):
                await asyncio.sleep(SETTLE_DELAY_SECONDS * (attempt + 1))
        # The object stays: if the commit arrives late after all, it must find its bytes.
        raise LogUnavailable(f"the outcome of a commit is unknown: {cause}") from cause

    async def _committed_tail(self, upload: Upload, plan: _Plan) -> Tail:
        after = plan.table.offset_end if plan.table is not None else 0
        async for entry in self._index.scan(plan.stream_id, after):
            if entry.wal_id == upload.slot.wal_id.bytes:
                return Tail(entry.end, entry.cumulative_size)
        raise LogUnavailable(f"stream {plan.stream_id} lost its entry of {upload.slot.path}")

    # After the commit

    def _publish(self, upload: Upload, plans: list[_Plan], committed: Committed) -> None:
        wal_id = upload.slot.wal_id.bytes
        for plan, tail in zip(plans, committed.tails, strict=True):
            start = tail.offset_end - plan.value.record_count
            log_start = self._log_start(plan.stream_id)
            for (pending, at), row in zip(plan.accepted, plan.value.wal.batches, strict=True):
                answer = Appended(start + row.start_offset_delta, log_start)
                upload.answers.append((pending, answer))
                position = plan.chunk.chunk_offset + plan.chunk.rows[at].offset_in_chunk
                batch = _stamped(pending.batch.data, answer.base_offset)
                self._ranges.add(wal_id, position, batch)
                self._lost.forget(plan.stream_id, pending.batch)
            if plan.table is not None:
                if plan.table.offset_end == start:
                    apply_entry(plan.table, tail.offset_end, plan.value)
                else:
                    self._producers.forget(plan.stream_id)
            key = streams.index_entry(plan.stream_id, tail.offset_end, tail.cumulative_size)
            self._index.committed(entries.decode_at(key, committed.revision, plan.value))

    def _log_start(self, stream_id: int) -> int:
        return self._index.known_log_start(stream_id) or 0


def _stamped(batch: objects.Buffer, base_offset: int) -> objects.Buffer:
    """The batch with its offset, as readers get it. Its object is written, and nobody else reads
    the memory any more: it is changed in place if it can be."""
    if isinstance(batch, bytes) or (isinstance(batch, memoryview) and batch.readonly):
        batch = bytearray(batch)
    stamp(batch, base_offset, entries.LEADER_EPOCH)
    return batch
