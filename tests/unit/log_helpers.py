"""Shared by the log's tests: batches, logs on stores in memory, and stores that fail on command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from towpath.log.object.log import ObjectLog
from towpath.log.object.settings import ObjectLogSettings
from towpath.metadata.memory import MemoryStore
from towpath.metadata.store import Committed, MetadataStore
from towpath.objects.memory import MemoryObjectStore
from towpath.objects.store import Buffer
from towpath.observe.metrics import Metrics
from towpath.records.batch import BatchInfo, parse_header
from towpath.records.build import NewRecord, ProducerFields, build_batch
from towpath.records.walk import iterate
from towpath.runtime import Runtime, inline_runtime

STREAM = 1 << 20


def batch(
    *values: bytes,
    producer: tuple[int, int, int] | None = None,
    timestamp_ms: int = 1_700_000_000_000,
) -> BatchInfo:
    """A valid batch of these values; `producer` is (id, epoch, first sequence)."""
    producer_id, epoch, sequence = producer if producer is not None else (-1, -1, -1)
    data = build_batch(
        [NewRecord(value=value, timestamp_ms=timestamp_ms) for value in values],
        producer=ProducerFields(producer_id, epoch, sequence),
    )
    return BatchInfo(data, len(values), timestamp_ms, timestamp_ms, producer_id, epoch, sequence)


class FailingObjects(MemoryObjectStore):
    """Fails the next puts or reads with the given errors; counts what reaches the store."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self.put_errors: list[Exception] = []
        self.read_errors: list[Exception] = []
        self.puts = 0
        self.reads = 0
        self.gate: asyncio.Event | None = None

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        self.puts += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.put_errors:
            raise self.put_errors.pop(0)
        await super().put(path, parts)

    async def read(self, path: str, offset: int, length: int) -> memoryview:
        self.reads += 1
        if self.read_errors:
            raise self.read_errors.pop(0)
        return await super().read(path, offset, length)


def fail_commits(store: MetadataStore, errors: list[tuple[Exception, bool]]) -> None:
    """Make the next commits raise; the flag says whether they are applied first."""
    real: Callable[..., Awaitable[Committed]] = store.commit

    async def commit(*args: Any, **options: Any) -> Committed:
        if errors:
            error, applied = errors.pop(0)
            if applied:
                await real(*args, **options)
            raise error
        return await real(*args, **options)

    store.commit = commit  # type: ignore[method-assign]


class World:
    """Stores that several logs (brokers) share."""

    def __init__(self, seed: int = 1, **settings: Any) -> None:
        self.runtime: Runtime = inline_runtime(seed)
        self.first_store = MemoryStore(self.runtime)
        self.objects = FailingObjects(self.runtime)
        self.settings = settings
        self.steps: list[str] = []
        self._logs: list[ObjectLog] = []

    async def log(self, store: MetadataStore | None = None, **options: Any) -> ObjectLog:
        """A broker's log on the shared stores."""
        number = len(self._logs) + 1
        log = ObjectLog(
            store if store is not None else self.first_store,
            self.objects,
            self.runtime,
            ObjectLogSettings(broker_id=number, **self.settings),
            Metrics(),
            checkpoint=self.steps.append,
            **options,
        )
        self._logs.append(log)
        return log

    def second_store(self) -> MemoryStore:
        """Another broker's view of the same metadata."""
        return MemoryStore(self.runtime, state=self.first_store.state)


def offsets_and_values(buffers: Sequence[Buffer]) -> list[tuple[int, bytes]]:
    """What a consumer decodes from a read: (offset, value) of every record."""
    data = b"".join(bytes(part) for part in buffers)
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data):
        header = parse_header(data, at)
        whole = data[at : at + header.size_bytes]
        found.extend(
            (header.base_offset + item.offset_delta, bytes(item.value or b""))
            for item in iterate(whole)
        )
        at += header.size_bytes
    return found
