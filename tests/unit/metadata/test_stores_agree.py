"""The same operations on SQLite and in memory: the same answers, changes and content."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contract.metadata_store_harness import Recorder, everything
from tests.unit.metadata.helpers_metadata import MemoryHarness, SqliteHarness

from towpath.metadata.keys import streams
from towpath.metadata.store import (
    ABSENT,
    ANY,
    Append,
    ConditionFailed,
    KeyIs,
    MetadataStore,
    Put,
    TailIs,
    VersionConflict,
)

Operation = Callable[[MetadataStore], Coroutine[Any, Any, Any]]

STREAMS = st.integers(1, 3)
KEYS = st.sampled_from(["/a", "/a/b", "/b"]) | st.builds(
    streams.index_entry, STREAMS, st.integers(1, 6), st.just(10)
)
EXPECTATIONS = st.sampled_from([ANY, ABSENT]) | st.integers(1, 20)
CONDITIONS = st.builds(KeyIs, KEYS, st.none() | st.integers(1, 20)) | st.builds(
    TailIs, STREAMS, st.integers(0, 6)
)
APPENDS = st.builds(Append, STREAMS, st.integers(1, 3), st.just(10), st.just(b"e"))
PUTS = st.builds(Put, KEYS, st.binary(max_size=2))

OPERATIONS = st.one_of(
    st.builds(lambda k, e: lambda s: s.put(k, b"v", expect=e), KEYS, EXPECTATIONS),
    st.builds(lambda k, e: lambda s: s.delete(k, expect=e), KEYS, EXPECTATIONS),
    st.builds(
        lambda a, p, d, e: lambda s: s.commit(0, appends=a, puts=p, deletes=d, expect=e),
        st.lists(APPENDS, max_size=2),
        st.lists(PUTS, max_size=2),
        st.lists(KEYS, max_size=2),
        st.lists(CONDITIONS, max_size=1),
    ),
    st.builds(lambda: lambda s: s.tails([1, 2, 3])),
    st.builds(lambda k, n: lambda s: s.scan(k, "~", limit=n), KEYS, st.integers(0, 5)),
    st.builds(lambda k: lambda s: s.first_above(k, "~"), KEYS),
    st.builds(lambda k: lambda s: s.last("/", k), KEYS),
)


async def outcome(operation: Operation, store: MetadataStore) -> object:
    try:
        return await operation(store)
    except VersionConflict as conflict:
        return (conflict.key, conflict.actual_version)
    except ConditionFailed as failure:
        return failure.failed
    except ValueError as error:
        return str(error)


async def run_both(steps: list[tuple[int, Operation]], directory: Path) -> None:
    sqlite, memory = SqliteHarness(directory / "metadata.db"), MemoryHarness()
    clients = [(await sqlite.open(), await memory.open()) for _ in range(2)]
    recorders = [(Recorder(), Recorder()) for _ in clients]
    for pair, told in zip(clients, recorders, strict=True):
        for store, recorder in zip(pair, told, strict=True):
            store.watch("/", recorder)
    for client, operation in steps:
        answers = [await outcome(operation, store) for store in clients[client]]
        assert answers[0] == answers[1]
    for pair, told in zip(clients, recorders, strict=True):
        for store in pair:
            await store.barrier()
        assert told[0].changes == told[1].changes
        assert await everything(pair[0]) == await everything(pair[1])
    await sqlite.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, 1), OPERATIONS), min_size=1, max_size=30))
def test_sqlite_and_memory_agree(steps: list[tuple[int, Operation]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run_both(steps, Path(directory)))
