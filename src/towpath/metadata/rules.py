"""What every metadata store checks in the same way, before and inside a write.

A store refuses malformed input with ValueError before it touches anything, so that a write which
reached the store can only fail for the store's own reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from towpath.metadata.keys import streams
from towpath.metadata.store import (
    ABSENT,
    ANY,
    Append,
    Condition,
    Expect,
    KeyIs,
    Put,
    Tail,
    VersionConflict,
    validate_append,
)

MAX_KEY_BYTES = 4096
MAX_VALUE_BYTES = 16 * 1024 * 1024
MIN_SESSION_TTL_MS = 1_000
MAX_SESSION_TTL_MS = 300_000
"""The narrowest bounds among the stores (Oxia accepts 2 s to 5 min; shorter only serves tests)."""

VersionOf = Callable[[str], int | None]
"""The version of a key, None if it does not exist."""
TailOf = Callable[[int], Tail]
"""The tail of a stream."""


def check_key(key: str) -> None:
    """Refuse a key that some store could not hold, or that would spoil a stream's tail."""
    size_bytes = len(key) if key.isascii() else len(key.encode())
    if not 0 < size_bytes <= MAX_KEY_BYTES:
        raise ValueError(f"a key has 1 to {MAX_KEY_BYTES} bytes, not {size_bytes}")
    if "\0" in key:
        raise ValueError(f"key {key!r} holds a zero byte")
    if streams.is_index_entry(key):
        streams.parse_index_entry(key)


def check_value(value: bytes) -> None:
    """Refuse what is not a byte string of acceptable size."""
    if not isinstance(value, bytes):
        raise TypeError(f"a value is bytes, not {type(value).__name__}")
    if len(value) > MAX_VALUE_BYTES:
        raise ValueError(f"a value has at most {MAX_VALUE_BYTES} bytes, not {len(value)}")


def check_limit(limit: int) -> None:
    """Refuse a negative limit of a scan."""
    if limit < 0:
        raise ValueError(f"a scan's limit is not negative: {limit}")


def check_session_ttl(ttl_ms: int) -> None:
    """Refuse a time to live that a store could not keep."""
    if not MIN_SESSION_TTL_MS <= ttl_ms <= MAX_SESSION_TTL_MS:
        raise ValueError(
            f"a session lives {MIN_SESSION_TTL_MS} to {MAX_SESSION_TTL_MS} ms, not {ttl_ms}"
        )


def check_commit(
    domain: int,
    domain_count: int,
    appends: Sequence[Append],
    puts: Sequence[Put],
    deletes: Sequence[str],
) -> None:
    """Refuse a commit that is malformed whatever the store holds."""
    if not 0 <= domain < domain_count:
        raise ValueError(f"there is no domain {domain} (of {domain_count})")
    for append in appends:
        validate_append(append)
        check_value(append.value)
    for put in puts:
        check_key(put.key)
        check_value(put.value)
    for key in deletes:
        check_key(key)
    if len({put.key for put in puts} | set(deletes)) != len(puts) + len(deletes):
        raise ValueError("a commit puts or deletes each key at most once")


def check_expectation(key: str, actual_version: int | None, expect: Expect) -> None:
    """Raise VersionConflict unless the key is in the expected state."""
    if expect is ANY:
        return
    wanted = None if expect is ABSENT else expect
    if actual_version != wanted:
        raise VersionConflict(key, actual_version)


def failed_conditions(
    expect: Sequence[Condition], version_of: VersionOf, tail_of: TailOf
) -> list[Condition]:
    """The conditions that do not hold, in the order given."""
    return [condition for condition in expect if not _holds(condition, version_of, tail_of)]


def _holds(condition: Condition, version_of: VersionOf, tail_of: TailOf) -> bool:
    if isinstance(condition, KeyIs):
        version = version_of(condition.key)
        return version is not None and condition.version in (None, version)
    return tail_of(condition.stream_id).offset_end == condition.offset_end


def assign_offsets(
    appends: Sequence[Append], puts: Sequence[Put], deletes: Sequence[str], tail_of: TailOf
) -> tuple[tuple[Tail, ...], list[str]]:
    """The new tail and the new key of each append, from the state before the commit. An append that
    follows another one to the same stream goes on where that one ends."""
    taken = {put.key for put in puts}.union(deletes)
    tails: list[Tail] = []
    keys: list[str] = []
    grown: dict[int, Tail] = {}
    for append in appends:
        old = grown.get(append.stream_id) or tail_of(append.stream_id)
        new = Tail(old.offset_end + append.record_count, old.cumulative_size + append.size_bytes)
        grown[append.stream_id] = new
        key = streams.index_entry(append.stream_id, new.offset_end, new.cumulative_size)
        if key in taken:
            raise ValueError(f"the commit also puts or deletes {key}, which it appends")
        tails.append(new)
        keys.append(key)
    return tuple(tails), keys


def tail_of_key(key: str | None) -> Tail:
    """The tail that a stream's greatest index key stands for; (0, 0) without one."""
    if key is None:
        return Tail(0, 0)
    _, offset_end, cumulative_size = streams.parse_index_entry(key)
    return Tail(offset_end, cumulative_size)
