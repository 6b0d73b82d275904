"""The driver's part of a write, as blocking calls: begin, commit, discard.

Each call opens the stores for itself: a driver may make each of them in another process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import structlog

from towpath.cluster import identity
from towpath.config.settings import Settings
from towpath.metadata.keys import topics
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.sqlite.store import SqliteStore
from towpath.metadata.store import MetadataError, MetadataStore, OutcomeUnknown
from towpath.objects.store import ObjectStoreError
from towpath.objects.worker import RemovableObjects, open_worker_objects
from towpath.records import compression
from towpath.runtime import Runtime, inline_runtime
from towpath.topics.effective import settings_of
from towpath.topics.from_settings import topic_defaults
from towpath.writing.block import BlockPlace, current_block
from towpath.writing.commit import Epoch, Outcome
from towpath.writing.errors import WriteFailed, WriteRefused, WriteUnknown
from towpath.writing.settle import discard, settle
from towpath.writing.staged import Staged
from towpath.writing.target import Target

DOMAIN = 0
"""The embedded store has one domain."""
DEFAULT_COMPRESSION = "lz4"
"""Where neither the write nor the topic says otherwise. Every client reads it."""
COMPRESSION_SETTING = "compression.type"

logger = structlog.get_logger(__name__)

R = TypeVar("R")


class TopicDriver:
    """Drives writes to the topics of one system."""

    def __init__(self, settings: Settings, runtime: Runtime | None = None) -> None:
        """Raises WriteRefused if there is no such system, or nobody else can reach its stores."""
        path = settings.metadata_path()
        if path is None:
            raise WriteRefused("metadata_url memory:// is one broker's own; nothing else sees it")
        if settings.objects_url.startswith("memory:"):
            raise WriteRefused("objects_url memory:// is one broker's own; nothing else sees it")
        if not path.exists():
            raise WriteRefused(f"there is no Towpath here: {path} does not exist")
        self._path: Path = path
        self._settings = settings
        self._runtime = inline_runtime() if runtime is None else runtime

    def begin(self, topic: str, compression_name: str | None = None) -> Target:
        """What workers need to stage rows of a topic. Raises WriteRefused if there is none."""
        if compression_name is not None and compression_name not in compression.NAMES:
            known = ", ".join(compression.NAMES)
            raise WriteRefused(f"there is no compression {compression_name!r}; there are {known}")
        return self._with_store(lambda store: self._begin(store, topic, compression_name))

    def commit(self, staged: Sequence[Staged], epoch: Epoch | None = None) -> Outcome:
        """Make everything visible at once; see `settle.settle`."""
        objects = self._open_objects()
        return self._with_store(lambda store: settle(store, objects, staged, epoch, self._runtime))

    def discard(self, staged: Sequence[Staged]) -> None:
        """Delete objects that were never committed and never will be; see `settle.discard`."""
        discard(self._open_objects(), staged)

    def _open_objects(self) -> RemovableObjects:
        try:
            return open_worker_objects(self._settings.objects_url, self._settings.objects_options)
        except ObjectStoreError as error:
            raise WriteFailed(str(error)) from error

    async def _begin(self, store: MetadataStore, name: str, compression_name: str | None) -> Target:
        found = await store.get(topics.topic(name)) if name else None
        if found is None:
            raise WriteRefused(f"there is no topic {name!r}: create it first")
        await identity.load_or_create(store, self._runtime)
        record = topics.TopicRecord.decode(found.value)
        settings = self._settings
        rules = settings_of(record.config, topic_defaults(settings))
        zone = settings.broker_zone(0)
        place = BlockPlace(DOMAIN, settings.cluster_prefix, zone, settings.wal_orphan_ttl_ms)
        return Target(
            topic=name,
            topic_number=record.number,
            partitions=record.partitions,
            max_message_bytes=rules.max_message_bytes,
            decompressed_max_bytes=settings.decompressed_max_bytes,
            require_keys=rules.compact,
            log_append_time=rules.log_append_time,
            timestamp_before_max_ms=rules.timestamp_before_max_ms,
            timestamp_after_max_ms=rules.timestamp_after_max_ms,
            codec=_codec(compression_name, record.config.get(COMPRESSION_SETTING)),
            domain=DOMAIN,
            block=await current_block(store, place, self._runtime),
            objects_url=settings.objects_url,
            objects_options=dict(settings.objects_options),
        )

    def _with_store(self, work: Callable[[MetadataStore], Awaitable[R]]) -> R:
        async def run() -> R:
            store = await SqliteStore.open(self._path, self._runtime)
            try:
                return await work(store)
            finally:
                try:
                    await store.close()
                except MetadataError as error:
                    # What was done is done: this must not look as if it were not.
                    logger.warning("the metadata store did not close", error=str(error))

        try:
            return asyncio.run(run())
        except OutcomeUnknown as error:
            raise WriteUnknown(f"the metadata store at {self._path}: {error}") from error
        except (MetadataError, UnknownValueVersion, identity.IncompatibleCluster) as error:
            raise WriteFailed(f"the metadata store at {self._path}: {error}") from error


def _codec(asked: str | None, of_topic: str | None) -> int:
    """What the write asks for, else what the topic does, else the default."""
    name = asked if asked is not None else of_topic
    if name == "uncompressed":
        return compression.NONE
    if name not in compression.NAMES:
        name = DEFAULT_COMPRESSION
    return compression.NAMES.index(name)
