"""Topics as their callers see them. `topics/catalog.py` implements it on the metadata store."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from towpath.metadata.keys.topics import stream_id


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """A topic's effective settings: its own overrides over the broker's defaults."""

    max_message_bytes: int
    retention_ms: int
    """-1: keep for ever."""
    retention_bytes: int
    """Per partition; -1: no limit."""
    log_append_time: bool
    compact: bool
    delete: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    delete_retention_ms: int = 86_400_000
    """How long a compacted topic keeps the markers of deleted keys after it was cleaned."""
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    min_cleanable_dirty_ratio: float = 0.5


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic at one version of its record."""

    name: str
    topic_id: uuid.UUID
    number: int
    partitions: int
    overrides: Mapping[str, str] = field(hash=False)
    settings: TopicSettings
    version: int
    created_at_ms: int

    def stream(self, partition: int) -> int:
        """The stream id of a partition."""
        return stream_id(self.number, partition)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """What a client asks to be created. Partitions -1 means the broker's default.

    `assignments` maps partition to broker ids when the client gave them: then the count is theirs.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    overrides: Mapping[str, str | None] = field(default_factory=dict)


class Topics(ABC):
    """The catalog. Lookups are answered from a cache that a watch feeds; `refresh` makes the cache
    linearizable, and the catalog itself refreshes before it says that something does not exist."""

    @abstractmethod
    async def refresh(self) -> None:
        """After this, lookups see every change committed before the call."""

    @property
    @abstractmethod
    def changes(self) -> int:
        """A number that grows whenever a cached topic comes, changes or goes: as long as it is the
        same, every lookup answers the same."""

    @abstractmethod
    def get(self, name: str) -> Topic | None:
        """The cached topic of this name."""

    @abstractmethod
    def get_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        """The cached topic of this id."""

    @abstractmethod
    def get_by_number(self, number: int) -> Topic | None:
        """The cached topic of this number."""

    @abstractmethod
    def all(self) -> Iterable[Topic]:
        """Every cached topic, by name."""

    @abstractmethod
    async def create(self, new: NewTopic, *, validate_only: bool = False) -> Topic:
        """Create a topic; raises TopicError. With `validate_only` it only checks."""

    @abstractmethod
    async def delete(self, topic: Topic) -> None:
        """Delete a topic; TopicNotFound if it is gone already."""

    @abstractmethod
    async def add_partitions(
        self,
        name: str,
        total: int,
        assignments: list[tuple[int, ...]] | None,
        *,
        validate_only: bool = False,
    ) -> Topic:
        """Raise the number of partitions to `total`; existing stream ids stay."""

    @abstractmethod
    async def alter(
        self,
        name: str,
        change: Mapping[str, str | None],
        *,
        replace: bool,
        validate_only: bool = False,
        expect_version: int | None = None,
    ) -> Topic:
        """Set overrides (None removes one); with `replace` all others are removed.

        With `expect_version` the change is made to exactly that version of the topic, or
        ConcurrentChange is raised.
        """
