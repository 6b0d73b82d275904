"""WAL objects that nobody needs: ordered for deletion when every chunk was let go, then deleted.

An object is due when each stream that has a chunk in it left a deref and the index confirms each
of them. It is deleted after a grace, because a reader may still hold an entry that names it. The
order is the last thing to go, so a crash at any point is made good by the next round.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence

import structlog
from google.protobuf.message import DecodeError

from towpath.gc.paging import delete_keys, key_after, scan_pages
from towpath.gc.settings import GcSettings
from towpath.gc.summary import Summary
from towpath.log.object.entries import UnknownEntry, decode_value
from towpath.metadata.keys import wal
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.proto.index_pb2 import WAL
from towpath.metadata.store import ABSENT, KeyValue, MetadataStore, VersionConflict, prefix_end
from towpath.objects.store import ObjectStore, ObjectStoreError
from towpath.observe.metrics import Metrics
from towpath.runtime import Runtime

KEYS_PER_ROUND = 20_000
"""Derefs and orders that a round looks at; the next one goes on where it stopped."""
OBJECTS_AT_ONCE = 32
"""Objects deleted together: a store of files syncs their directory once."""

logger = structlog.get_logger(__name__)


class WalCollector:
    """Deletes committed WAL objects that no index entry names any more."""

    def __init__(
        self,
        store: MetadataStore,
        objects: ObjectStore,
        runtime: Runtime,
        settings: GcSettings,
        metrics: Metrics,
        *,
        keys_per_round: int = KEYS_PER_ROUND,
    ) -> None:
        self._store = store
        self._objects = objects
        self._clock = runtime.clock
        self._settings = settings
        self._metrics = metrics
        self._keys_per_round = keys_per_round
        self._next_deref = wal.DEREFS_PREFIX
        self._next_order = wal.GC_PREFIX
        self._pending = 0

    async def run_once(self) -> Summary:
        """Order what is due, and delete what was ordered long enough ago."""
        ordered = await self._order_deletions()
        executed = await self._execute_orders()
        return Summary(
            ordered.examined + executed.examined,
            executed.removed,
            more=ordered.more or executed.more,
        )

    # Ordering

    async def _order_deletions(self) -> Summary:
        examined = 0
        async for wal_id, derefs in self._derefs_by_object(self._next_deref):
            try:
                await self._consider(wal_id, derefs)
            except UnknownValueVersion as error:
                logger.error("cannot judge a WAL object", wal_id=str(wal_id), error=str(error))
            examined += len(derefs)
            if examined >= self._keys_per_round:
                self._next_deref = prefix_end(wal.derefs_prefix(wal_id))
                return Summary(examined, more=True)
        finished_pass = self._next_deref == wal.DEREFS_PREFIX
        self._next_deref = wal.DEREFS_PREFIX
        return Summary(examined, more=not finished_pass)

    async def _derefs_by_object(
        self, start: str
    ) -> AsyncIterator[tuple[uuid.UUID, list[KeyValue]]]:
        """All derefs of one object after the other."""
        wal_id: uuid.UUID | None = None
        derefs: list[KeyValue] = []
        async for page in scan_pages(self._store, start, prefix_end(wal.DEREFS_PREFIX)):
            for row in page:
                of = wal_id_of_deref(row.key)
                if of != wal_id:
                    if wal_id is not None:
                        yield wal_id, derefs
                    wal_id, derefs = of, []
                derefs.append(row)
        if wal_id is not None:
            yield wal_id, derefs

    async def _consider(self, wal_id: uuid.UUID, derefs: Sequence[KeyValue]) -> None:
        found = await self._find_record(wal_id)
        if found is None:
            # Its order was carried out, and a collector that was slow wrote these after it.
            await delete_keys(self._store, [row.key for row in derefs])
            return
        domain, record = found
        let_go = {stream_id_of_deref(row.key) for row in derefs}
        if not let_go.issuperset(record.stream_ids):
            return
        key = wal.gc(domain, wal_id)
        if await self._store.get(key) is not None or await self._is_named(wal_id, derefs):
            return
        delete_after_ms = self._clock.now_ms() + self._settings.wal_gc_grace_ms
        try:
            order = wal.GcOrder(record.path, delete_after_ms)
            await self._store.put(key, order.encode(), expect=ABSENT)
        except VersionConflict:
            return

    async def _find_record(self, wal_id: uuid.UUID) -> tuple[int, wal.WalObject] | None:
        for domain in range(self._store.domain_count):
            found = await self._store.get(wal.wal_object(domain, wal_id))
            if found is not None:
                return domain, wal.WalObject.decode(found.value)
        return None

    async def _is_named(self, wal_id: uuid.UUID, derefs: Sequence[KeyValue]) -> bool:
        """Whether an entry that was to be let go still names the object."""
        for row in derefs:
            entry = await self._store.get(wal.Deref.decode(row.value).entry_key)
            if entry is None:
                continue
            try:
                message = decode_value(entry.value)
            except (UnknownEntry, DecodeError):
                return True  # Who cannot read an entry must not say what it does not need.
            if message.file_type == WAL and message.wal.wal_id == wal_id.bytes:
                return True
        return False

    # Deleting

    async def _execute_orders(self) -> Summary:
        examined = removed = 0
        now_ms = self._clock.now_ms()
        failures: list[BaseException] = []
        async for page in scan_pages(self._store, self._next_order, prefix_end(wal.GC_PREFIX)):
            due = [(row, order) for row in page if (order := due_order(row, now_ms)) is not None]
            failed = await self._execute(due)
            failures += failed
            examined += len(page)
            removed += len(due) - len(failed)
            self._pending += len(page) - len(due) + len(failed)
            self._next_order = key_after(page[-1].key)
            if examined >= self._keys_per_round:
                break
        else:
            self._metrics.gc_pending_deletes.set(self._pending)
            self._next_order, self._pending = wal.GC_PREFIX, 0
        if failures:
            raise failures[0]
        return Summary(examined, removed, more=self._next_order != wal.GC_PREFIX)

    async def _execute(self, due: Sequence[tuple[KeyValue, wal.GcOrder]]) -> list[BaseException]:
        """Carry out orders; one that fails does not stop the others."""
        failures: list[BaseException] = []
        for start in range(0, len(due), OBJECTS_AT_ONCE):
            some = due[start : start + OBJECTS_AT_ONCE]
            results = await asyncio.gather(
                *(self._carry_out(row, order) for row, order in some), return_exceptions=True
            )
            failures += [result for result in results if isinstance(result, BaseException)]
            for failure in failures:
                if not isinstance(failure, ObjectStoreError):
                    raise failure
        return failures

    async def _carry_out(self, row: KeyValue, order: wal.GcOrder) -> None:
        wal_id = wal.parse_last_uuid(row.key)
        prefix = wal.derefs_prefix(wal_id)
        derefs = [
            deref
            async for page in scan_pages(self._store, prefix, prefix_end(prefix))
            for deref in page
        ]
        if await self._is_named(wal_id, derefs):
            # Nobody brings a name back; but an object that is named is never deleted.
            logger.error("an order would delete an object in use", path=order.path)
            await self._store.delete(row.key)
            return
        await self._objects.delete(order.path)
        record = wal.wal_object(domain_of_order(row.key), wal_id)
        await delete_keys(self._store, [*(deref.key for deref in derefs), record, row.key])
        self._metrics.gc_deleted_objects.labels("wal").inc()


def wal_id_of_deref(key: str) -> uuid.UUID:
    """The object of a deref's key."""
    return uuid.UUID(hex=key[len(wal.DEREFS_PREFIX) :].split("/", 1)[0])


def stream_id_of_deref(key: str) -> int:
    """The stream of a deref's key."""
    return int(key.rsplit("/", 1)[1])


def due_order(row: KeyValue, now_ms: int) -> wal.GcOrder | None:
    """The order, if its time has come."""
    try:
        order = wal.GcOrder.decode(row.value)
    except UnknownValueVersion as error:
        logger.error("cannot read an order", key=row.key, error=str(error))
        return None
    return order if order.delete_after_ms <= now_ms else None


def domain_of_order(key: str) -> int:
    """The domain of an order's key."""
    return int(key[len(wal.GC_PREFIX) :].split("/", 1)[0])
