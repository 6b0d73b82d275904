"""The metadata store's interface: small verbs and one atomic multi-key commit.

Every mutation in the system is either a single-key compare-and-set followed by idempotent work, or
one `commit`. Keys are strings ordered by their UTF-8 bytes. Versions are positive integers that
grow with every change of a key and are never reused for the same key, not even after a delete.

Errors. `VersionConflict` and `ConditionFailed` mean that nothing was changed. `StoreUnavailable`
means that nothing was changed and the call may be repeated. `OutcomeUnknown` means that the store
may or may not have applied the write: the caller must look before it decides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum


class MetadataError(Exception):
    """Any failure of the metadata store."""


class VersionConflict(MetadataError):
    """A put or delete expected another version of the key; nothing was changed."""

    def __init__(self, key: str, actual_version: int | None) -> None:
        super().__init__(f"version conflict on {key}: found {actual_version}")
        self.key = key
        self.actual_version = actual_version


class StoreUnavailable(MetadataError):
    """The store could not be reached or refused; nothing was changed."""


class OutcomeUnknown(MetadataError):
    """The answer was lost: the write may have been applied or not."""


class SessionExpired(MetadataError):
    """The session is over; its ephemeral keys are gone or about to go."""


class Expectation(Enum):
    """The expectations that are not a version."""

    ANY = "any"
    ABSENT = "absent"


ANY = Expectation.ANY
"""Write whatever the key's state is."""
ABSENT = Expectation.ABSENT
"""Write only if the key does not exist."""

Expect = Expectation | int
"""`ANY`, `ABSENT`, or the exact version that the key must have."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key's state as read."""

    key: str
    value: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a stream: the next offset and the bytes of all its records so far.

    A stream without entries has the tail `(0, 0)`.
    """

    offset_end: int
    cumulative_size: int


EMPTY_TAIL = Tail(0, 0)


@dataclass(frozen=True, slots=True)
class Append:
    """One new offset-index entry; the store gives it the next offsets of its stream.

    The new key is `keys.streams.index_entry(stream_id, tail.offset_end + record_count,
    tail.cumulative_size + size_bytes)`. `value` therefore holds relative offsets only.
    """

    stream_id: int
    record_count: int
    size_bytes: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Put:
    """An unconditional put inside a commit."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class KeyIs:
    """Condition: the key exists, and has this version when one is given."""

    key: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class TailIs:
    """Condition: the stream's log end offset is this one."""

    stream_id: int
    offset_end: int


Condition = KeyIs | TailIs


class ConditionFailed(MetadataError):
    """A commit's condition did not hold; nothing was changed."""

    def __init__(self, failed: Sequence[Condition]) -> None:
        super().__init__(f"commit conditions failed: {list(failed)}")
        self.failed = tuple(failed)


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did: the new tail of each append, in the order given, and its revision.

    Where the store has conditions, the revision is the version of every key that the commit put.
    """

    tails: tuple[Tail, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Change:
    """One committed change of a key, as watchers see it. `version` is None for a delete."""

    key: str
    version: int | None


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Changes in commit order, delivered together.

    `resync` says that changes may have been missed (the feed was trimmed or reconnected): the
    watcher must forget what it cached and read again. The changes given are then not complete.
    """

    changes: tuple[Change, ...] = field(default=())
    resync: bool = False


WatchCallback = Callable[[ChangeSet], None]
"""Called on the event loop, in commit order, never concurrently; must not block or raise."""


class Watch(ABC):
    """A running watch."""

    @abstractmethod
    def cancel(self) -> None:
        """Stop; the callback is not called again."""


class Session(ABC):
    """A lease on ephemeral keys. The store keeps it alive in the background until closed."""

    session_id: int

    @property
    @abstractmethod
    def expired(self) -> bool:
        """True once the session is known to have ended by itself."""

    @abstractmethod
    async def close(self) -> None:
        """End the session now and remove its ephemeral keys."""


class MetadataStore(ABC):
    """The verbs. All of them are linearizable unless they say otherwise."""

    supports_conditions: bool = True
    """Whether `commit` honours `expect`. A store that does not raises ValueError when given any."""

    domain_count: int = 1
    """How many MetaDomains the store offers (fixed at cluster creation)."""

    @abstractmethod
    async def get(self, key: str) -> KeyValue | None:
        """The key's present state."""

    @abstractmethod
    async def put(
        self, key: str, value: bytes, *, expect: Expect = ANY, session: Session | None = None
    ) -> int:
        """Write one key and return its new version. With a session the key is ephemeral."""

    @abstractmethod
    async def delete(self, key: str, *, expect: Expect = ANY) -> bool:
        """Delete one key; False if it did not exist (an expected version then conflicts)."""

    @abstractmethod
    async def scan(self, start: str, end: str, *, limit: int = 1000) -> list[KeyValue]:
        """Up to `limit` keys of `[start, end)` in ascending order."""

    @abstractmethod
    async def first_above(self, key: str, end: str) -> KeyValue | None:
        """The smallest key of `(key, end)`."""

    @abstractmethod
    async def last(self, start: str, end: str) -> KeyValue | None:
        """The greatest key of `[start, end)`."""

    @abstractmethod
    async def tails(self, stream_ids: Sequence[int]) -> list[Tail]:
        """The present tails, in the order asked. Cheap enough for every fetch at the log's end."""

    @abstractmethod
    async def commit(
        self,
        domain: int,
        *,
        appends: Sequence[Append] = (),
        puts: Sequence[Put] = (),
        deletes: Sequence[str] = (),
        expect: Sequence[Condition] = (),
    ) -> Committed:
        """Do all of it or nothing. Several appends to a stream follow each other as they are given.

        Raises ConditionFailed with the conditions that did not hold, StoreUnavailable when it is
        certain that nothing was written, OutcomeUnknown when it is not.
        """

    @abstractmethod
    def watch(self, prefix: str, callback: WatchCallback) -> Watch:
        """Call back for every change of a key under `prefix` committed from now on.

        No change is lost silently: where the feed has a gap, the callback gets `resync`.
        """

    @abstractmethod
    async def barrier(self) -> None:
        """Return after every change committed before this call was given to the watchers.

        It makes a cache that is fed by a watch as good as a linearizable read.
        """

    @abstractmethod
    async def open_session(self, ttl_ms: int) -> Session:
        """Start a session whose ephemeral keys vanish `ttl_ms` after its holder falls silent."""

    @abstractmethod
    async def probe(self) -> None:
        """Raise MetadataError unless the store can be read and written right now."""

    @abstractmethod
    async def close(self) -> None:
        """Stop watching, close sessions and release the store."""


def validate_append(append: Append) -> None:
    """The one guard in front of every store: a malformed append must never be sent.

    (A malformed sequence write stops an Oxia server from restarting, so all stores refuse it.)
    """
    if append.record_count <= 0:
        raise ValueError(f"append to stream {append.stream_id} has no records")
    if append.size_bytes <= 0:
        raise ValueError(f"append to stream {append.stream_id} has no bytes")
    if not 0 <= append.stream_id < 1 << 64:
        raise ValueError(f"stream id {append.stream_id} does not fit 64 bits")


def prefix_end(prefix: str) -> str:
    """The smallest key greater than every key that starts with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
