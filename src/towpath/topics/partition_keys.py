"""The partition records beneath a topic: written before the topic's record, removed after it.

The topic's record alone decides what exists, and a stream id follows from it. The partition records
tell other tools; a crash or a lost race may leave some that no topic stands behind, or with the
stream id of another topic of the same name. `repair` brings one name in line with its record, and
`sweep` does so for all of them. Records that another release wrote are left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice

from towpath.metadata.keys import topics as keys
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.store import (
    ConditionFailed,
    KeyIs,
    KeyValue,
    MetadataStore,
    Put,
    VersionConflict,
    prefix_end,
)

PUTS_PER_COMMIT = 100
"""Stays below etcd's default of 128 operations in a transaction."""

DELETES_AT_ONCE = 32
"""Single deletes under way together, on stores without conditional commits."""

SCAN_PAGE_KEYS = 1000
LEFTOVER_AGE_MS = 3_600_000
"""Younger records without a topic may belong to a creation that is still under way."""

DOMAIN = 0
"""Topic keys belong to no stream, so every commit of them goes to the first domain."""


def _chunks(items: Iterator[Put], size: int) -> Iterator[list[Put]]:
    while chunk := list(islice(items, size)):
        yield chunk


async def write(
    store: MetadataStore, name: str, number: int, partitions: range, created_at_ms: int
) -> None:
    """Write the records of these partitions, whatever was there before."""
    puts = (_put(name, number, partition, created_at_ms) for partition in partitions)
    for chunk in _chunks(puts, PUTS_PER_COMMIT):
        await store.commit(DOMAIN, puts=chunk)


def _put(name: str, number: int, partition: int, created_at_ms: int) -> Put:
    record = keys.PartitionRecord(keys.stream_id(number, partition), created_at_ms)
    return Put(keys.partition(name, partition), record.encode())


async def remove(store: MetadataStore, name: str, number: int) -> None:
    """Delete the records that belong to this topic number, and no record of a successor."""
    async for page in _pages(store, keys.partitions_prefix(name)):
        own = [row for row in page if _owner(row) == number]
        for start in range(0, len(own), PUTS_PER_COMMIT):
            await _delete(store, own[start : start + PUTS_PER_COMMIT])


async def repair(store: MetadataStore, name: str, *, before_ms: int) -> int:
    """Make the records of a name match its topic; returns how many were wrong.

    Records that nothing stands behind are deleted only if they were written before `before_ms`.
    """
    found = await store.get(keys.topic(name))
    topic = None if found is None else read_topic(found)
    if found is not None and topic is None:
        return 0
    wrong = 0
    async for page in _pages(store, keys.partitions_prefix(name)):
        stale = [row for row in page if _is_stale(row, topic, before_ms)]
        wrong += len(stale)
        for row in stale:
            await _repair_one(store, row, topic, name)
    return wrong


async def sweep(store: MetadataStore, *, before_ms: int) -> int:
    """`repair` every name that has partition records; returns how many records were wrong."""
    wrong = 0
    topics: dict[str, keys.TopicRecord | None] = {}
    suspects: set[str] = set()
    async for page in _pages(store, keys.TOPICS_PREFIX):
        for row in page:
            name = keys.topic_name(row.key)
            # A topic's record sorts before its partitions, so it has been seen by then.
            if keys.is_topic(row.key):
                topics[name] = read_topic(row)
            elif _is_stale(row, topics.get(name), before_ms):
                suspects.add(name)
    for name in sorted(suspects):
        wrong += await repair(store, name, before_ms=before_ms)
    return wrong


async def _pages(store: MetadataStore, prefix: str) -> AsyncIterator[list[KeyValue]]:
    start, end = prefix, prefix_end(prefix)
    while True:
        page = await store.scan(start, end, limit=SCAN_PAGE_KEYS)
        if page:
            yield page
        if len(page) < SCAN_PAGE_KEYS:
            return
        start = page[-1].key + "\0"


def read_topic(row: KeyValue) -> keys.TopicRecord | None:
    """The topic's record, or None if another release wrote it in a way unknown here."""
    try:
        return keys.TopicRecord.decode(row.value)
    except UnknownValueVersion:
        return None


def _read(row: KeyValue) -> keys.PartitionRecord | None:
    try:
        return keys.PartitionRecord.decode(row.value)
    except UnknownValueVersion:
        return None


def _owner(row: KeyValue) -> int | None:
    record = _read(row)
    return None if record is None else keys.split_stream_id(record.stream_id)[0]


def _partition(row: KeyValue) -> int:
    return int(row.key.rsplit("/", 1)[1])


def _is_stale(row: KeyValue, topic: keys.TopicRecord | None, before_ms: int) -> bool:
    record = _read(row)
    if record is None:
        return False
    if topic is not None and _partition(row) < topic.partitions:
        return _owner(row) != topic.number
    return record.created_at_ms < before_ms


async def _repair_one(
    store: MetadataStore, row: KeyValue, topic: keys.TopicRecord | None, name: str
) -> None:
    try:
        if topic is not None and _partition(row) < topic.partitions:
            put = _put(name, topic.number, _partition(row), topic.created_at_ms)
            await store.put(put.key, put.value, expect=row.version)
        else:
            await store.delete(row.key, expect=row.version)
    except VersionConflict:
        # Somebody is writing this name right now; what they leave is checked the next time.
        pass


async def _delete(store: MetadataStore, rows: Sequence[KeyValue]) -> None:
    """Delete these rows at exactly these versions; rows that changed stay."""
    if store.supports_conditions:
        try:
            await store.commit(
                DOMAIN,
                deletes=[row.key for row in rows],
                expect=[KeyIs(row.key, row.version) for row in rows],
            )
        except ConditionFailed:
            pass
        else:
            return
    for start in range(0, len(rows), DELETES_AT_ONCE):
        batch = rows[start : start + DELETES_AT_ONCE]
        await asyncio.gather(*(_delete_one(store, row) for row in batch))


async def _delete_one(store: MetadataStore, row: KeyValue) -> None:
    try:
        await store.delete(row.key, expect=row.version)
    except VersionConflict:
        pass
