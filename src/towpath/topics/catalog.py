"""Topics on the metadata store.

Creation writes the partition records first; the topic's record, put last if absent, decides who
created the topic. Deletion first leaves a grave for the sweeper, then deletes the topic's record at
the version it saw, then the partition records. A crash in between leaves either the topic, or a
grave whose topic is gone. Every other change is a compare-and-set on the topic's record.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace as replaced

import structlog

from towpath.cluster.identity import random_id
from towpath.errors import (
    ConcurrentChange,
    InvalidTopicName,
    TopicError,
    TopicExists,
    TopicNotFound,
)
from towpath.metadata.keys import topics as keys
from towpath.metadata.store import (
    ABSENT,
    KeyValue,
    MetadataError,
    MetadataStore,
    OutcomeUnknown,
    VersionConflict,
)
from towpath.runtime import Runtime
from towpath.topics import checks, configs, names, partition_keys
from towpath.topics.cache import TopicCache
from towpath.topics.effective import TopicDefaults, settings_of
from towpath.topics.interface import NewTopic, Topic, Topics
from towpath.topics.name_locks import NameLocks
from towpath.topics.numbers import TopicNumbers

ATTEMPTS = 20
"""Lost races on one topic's record before a change gives up with ConcurrentChange."""

NO_ID = uuid.UUID(int=0)

_log = structlog.get_logger(__name__)


class TopicCatalog(Topics):
    """See the interface. `live_brokers` gives the broker ids that an assignment may name."""

    def __init__(
        self,
        store: MetadataStore,
        runtime: Runtime,
        defaults: TopicDefaults,
        live_brokers: Callable[[], Collection[int]],
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._defaults = defaults
        self._live_brokers = live_brokers
        self._numbers = TopicNumbers(store)
        self._locks = NameLocks()
        self._cache = TopicCache(store, self._build)
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load every topic, follow changes, and sweep what crashed creations left behind."""
        await self._cache.start()
        self._sweeper = asyncio.create_task(self._sweep_leftovers(), name="topics-sweeper")

    async def close(self) -> None:
        """Stop following; lookups keep answering what was known."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        await self._cache.close()

    async def refresh(self) -> None:
        await self._cache.refresh()

    @property
    def changes(self) -> int:
        return self._cache.index.changes

    def get(self, name: str) -> Topic | None:
        return self._cache.index.get(name)

    def get_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        return self._cache.index.get_by_id(topic_id)

    def get_by_number(self, number: int) -> Topic | None:
        return self._cache.index.get_by_number(number)

    def all(self) -> Iterable[Topic]:
        return self._cache.index.all()

    # Creation

    async def create(self, new: NewTopic, *, validate_only: bool = False) -> Topic:
        names.validate_new(new.name)
        async with self._locks.hold(new.name):
            await self.refresh()
            record = self._checked_record(new)
            # The cache hides a record that only a newer release can read; its name is taken too.
            if await self._store.get(keys.topic(new.name)) is not None:
                raise TopicExists(f"Topic '{new.name}' already exists.")
            if validate_only:
                return self._topic(new.name, record, version=0)
            record = replaced(
                record, topic_id=random_id(self._runtime), number=await self._numbers.take()
            )
            await partition_keys.write(
                self._store,
                new.name,
                record.number,
                range(record.partitions),
                record.created_at_ms,
            )
            version = await self._put_new(new.name, record)
            await self._cache.read(new.name)
            return self._topic(new.name, record, version)

    def _checked_record(self, new: NewTopic) -> keys.TopicRecord:
        """The record to be written, still without id and number."""
        if self.get(new.name) is not None:
            raise TopicExists(f"Topic '{new.name}' already exists.")
        colliding = self._cache.index.colliding(new.name)
        if colliding is not None:
            raise InvalidTopicName(f"Topic '{new.name}' collides with existing topic: {colliding}")
        overrides = configs.validate(new.overrides)
        partitions = checks.new_partition_count(
            new, self._defaults.num_partitions, self._live_brokers()
        )
        return keys.TopicRecord(NO_ID, 0, partitions, overrides, self._runtime.clock.now_ms())

    async def _put_new(self, name: str, record: keys.TopicRecord) -> int:
        """Write the deciding record; TopicExists if another one was first."""
        for _ in range(ATTEMPTS):
            try:
                return await self._store.put(keys.topic(name), record.encode(), expect=ABSENT)
            except (VersionConflict, OutcomeUnknown):
                found = await self._store.get(keys.topic(name))
            if found is None:
                continue
            winner = partition_keys.read_topic(found)
            if winner is not None and winner.topic_id == record.topic_id:
                return found.version
            await self._repair(name)
            await self._cache.read(name)
            raise TopicExists(f"Topic '{name}' already exists.")
        raise ConcurrentChange(f"topic '{name}' is being created and deleted at once; try again")

    # Deletion

    async def delete(self, topic: Topic) -> None:
        async with self._locks.hold(topic.name):
            deleted = await self._delete_record(topic)
            await self._cache.read(topic.name)
            if not deleted:
                raise _not_found(topic.name)
            try:
                await partition_keys.remove(self._store, topic.name, topic.number)
            except MetadataError as error:
                # The topic is gone all the same; the sweep takes these records later.
                _log.warning("partition records stay behind", topic=topic.name, error=str(error))

    async def _delete_record(self, topic: Topic) -> bool:
        """Leave the grave and delete the record; False if the topic was gone before."""
        unsure = False
        for _ in range(ATTEMPTS):
            found = await self._record(topic.name)
            if found is None or found[0].topic_id != topic.topic_id:
                # After a lost answer this means that our own delete has happened.
                return unsure
            record, version = found
            grave = keys.DeletedTopic(
                topic.name, record.topic_id, record.partitions, self._runtime.clock.now_ms()
            )
            await self._store.put(keys.deleted(record.number), grave.encode())
            try:
                await self._store.delete(keys.topic(topic.name), expect=version)
                return True
            except VersionConflict:
                continue
            except OutcomeUnknown:
                unsure = True
        raise ConcurrentChange(f"topic '{topic.name}' is being changed by others; try again")

    # Changes

    async def add_partitions(
        self,
        name: str,
        total: int,
        assignments: list[tuple[int, ...]] | None,
        *,
        validate_only: bool = False,
    ) -> Topic:
        attempted = False

        def grow(record: keys.TopicRecord) -> keys.TopicRecord:
            nonlocal attempted
            checks.growth(name, record.partitions, total, assignments, self._live_brokers())
            attempted = not validate_only
            return replaced(record, partitions=total)

        async with self._locks.hold(name):
            try:
                return await self._change(name, grow, validate_only=validate_only)
            except TopicError:
                if attempted:
                    await self._repair(name)
                raise

    async def alter(
        self,
        name: str,
        change: Mapping[str, str | None],
        *,
        replace: bool,
        validate_only: bool = False,
        expect_version: int | None = None,
    ) -> Topic:
        def configure(record: keys.TopicRecord) -> keys.TopicRecord:
            kept = {} if replace else dict(record.config)
            for key, value in change.items():
                kept.pop(key, None)
                if value is not None:
                    kept[key] = value
            return replaced(record, config=configs.validate(kept))

        async with self._locks.hold(name):
            return await self._change(
                name, configure, validate_only=validate_only, expect_version=expect_version
            )

    async def _change(
        self,
        name: str,
        edit: Callable[[keys.TopicRecord], keys.TopicRecord],
        *,
        validate_only: bool,
        expect_version: int | None = None,
    ) -> Topic:
        """Compare-and-set the record to what `edit` makes of it."""
        written: keys.TopicRecord | None = None
        for _ in range(ATTEMPTS):
            found = await self._record(name)
            if found is None:
                raise _not_found(name)
            record, version = found
            if record == written:
                # The answer to our put was lost, but it took effect.
                await self._cache.read(name)
                return self._topic(name, record, version)
            if expect_version not in (None, version):
                raise ConcurrentChange(f"topic '{name}' was changed by others; try again")
            edited = edit(record)
            if validate_only or edited == record:
                return self._topic(name, edited, version)
            await self._write_growth(name, record, edited)
            try:
                new_version = await self._store.put(
                    keys.topic(name), edited.encode(), expect=version
                )
            except VersionConflict:
                continue
            except OutcomeUnknown:
                written = edited
                continue
            await self._cache.read(name)
            return self._topic(name, edited, new_version)
        raise ConcurrentChange(f"topic '{name}' is being changed by others; try again")

    async def _write_growth(
        self, name: str, record: keys.TopicRecord, edited: keys.TopicRecord
    ) -> None:
        fresh = range(record.partitions, edited.partitions)
        now_ms = self._runtime.clock.now_ms()
        await partition_keys.write(self._store, name, record.number, fresh, now_ms)

    # Helpers

    async def _record(self, name: str) -> tuple[keys.TopicRecord, int] | None:
        # A name that breaks the rules could reach into other keys.
        if not names.is_valid(name):
            return None
        found = await self._store.get(keys.topic(name))
        record = None if found is None else partition_keys.read_topic(found)
        return None if found is None or record is None else (record, found.version)

    async def _repair(self, name: str) -> None:
        """Undo what a lost race wrote over the partition records of the winner."""
        before_ms = self._runtime.clock.now_ms() - partition_keys.LEFTOVER_AGE_MS
        try:
            await partition_keys.repair(self._store, name, before_ms=before_ms)
        except MetadataError as error:
            _log.warning("partition records stay unrepaired", topic=name, error=str(error))

    async def _sweep_leftovers(self) -> None:
        before_ms = self._runtime.clock.now_ms() - partition_keys.LEFTOVER_AGE_MS
        try:
            wrong = await partition_keys.sweep(self._store, before_ms=before_ms)
        except MetadataError as error:
            _log.warning("the sweep of partition records failed", error=str(error))
            return
        if wrong:
            _log.info("swept partition records of crashed changes", count=wrong)

    def _build(self, name: str, row: KeyValue) -> Topic:
        return self._topic(name, keys.TopicRecord.decode(row.value), row.version)

    def _topic(self, name: str, record: keys.TopicRecord, version: int) -> Topic:
        return Topic(
            name=name,
            topic_id=record.topic_id,
            number=record.number,
            partitions=record.partitions,
            overrides=record.config,
            settings=settings_of(record.config, self._defaults),
            version=version,
            created_at_ms=record.created_at_ms,
        )


def _not_found(name: str) -> TopicNotFound:
    return TopicNotFound(f"The topic '{name}' does not exist.")
