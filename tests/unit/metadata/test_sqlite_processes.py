"""Several processes on one database, some of which are killed."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from tests.unit.metadata import helpers_committing_child as child

from towpath.metadata.keys import streams
from towpath.metadata.sqlite.store import SqliteStore
from towpath.metadata.store import ChangeSet, MetadataStore
from towpath.runtime import inline_runtime

REPOSITORY = Path(__file__).parents[3]
ROUNDS = 4


async def start_child(path: Path, name: str, count: int = 0) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        child.__file__,
        *(str(path), name, str(count)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"},
    )


async def read_acknowledged(process: asyncio.subprocess.Process) -> list[list[int]]:
    """Every whole line that the process has printed."""
    assert process.stdout is not None
    lines = (await process.stdout.read()).split(b"\n")[:-1]
    return [[int(number) for number in line.split()] for line in lines]


async def entries_of(store: MetadataStore, stream_id: int) -> dict[int, bytes]:
    """The values of a stream's entries by their end offset."""
    prefix, end = streams.index_prefix(stream_id), streams.index_end(stream_id)
    found = await store.scan(prefix, end, limit=1_000_000)
    return {streams.parse_index_entry(each.key)[1]: each.value for each in found}


async def check_commits(path: Path, acknowledged: dict[str, list[int]]) -> None:
    """Every commit is there whole or not at all, and the acknowledged ones are there."""
    store = await SqliteStore.open(path, inline_runtime())
    try:
        objects = {
            each.value.decode() for each in await store.scan("/object/", "/object0", limit=10**6)
        }
        parts: dict[str, int] = defaultdict(int)
        for position, stream_id in enumerate(child.STREAMS):
            entries = await entries_of(store, stream_id)
            for value in entries.values():
                parts[value.decode()] += 1
            for commit, ends in acknowledged.items():
                assert entries[ends[position]].decode() == commit
        assert parts == dict.fromkeys(objects, len(child.STREAMS))
        assert acknowledged.keys() <= objects
    finally:
        await store.close()


async def test_kill_9_loses_no_acknowledged_commit_and_leaves_no_part(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    acknowledged: dict[str, list[int]] = {}
    for round_number in range(ROUNDS):
        names = [f"r{round_number}a", f"r{round_number}b"]
        processes = [await start_child(path, name) for name in names]
        for name, process in zip(names, processes, strict=True):
            assert process.stdout is not None
            number, *ends = (await process.stdout.readline()).split()
            acknowledged[f"{name}-{int(number)}"] = [int(end) for end in ends]
        for process in processes:
            await asyncio.sleep(random.uniform(0, 0.15))
            process.kill()
        for name, process in zip(names, processes, strict=True):
            lines = await read_acknowledged(process)
            await process.wait()
            acknowledged |= {f"{name}-{commit}": ends for commit, *ends in lines}
        await check_commits(path, acknowledged)
    assert acknowledged


async def test_offsets_are_dense_across_processes_and_changes_reach_a_watcher(
    tmp_path: Path,
) -> None:
    path = tmp_path / "metadata.db"
    store = await SqliteStore.open(path, inline_runtime())
    seen: list[str] = []
    all_seen = asyncio.Event()

    def watch(changes: ChangeSet) -> None:
        assert not changes.resync
        seen.extend(change.key for change in changes.changes)
        if len(seen) == 60:
            all_seen.set()

    store.watch("/object/", watch)
    processes = [await start_child(path, name, 20) for name in "abc"]
    acknowledged = {}
    for name, process in zip("abc", processes, strict=True):
        for number, *ends in await read_acknowledged(process):
            acknowledged[f"{name}-{number}"] = ends
        assert await process.wait() == 0
    async with asyncio.timeout(20):
        await all_seen.wait()
    assert sorted(seen) == sorted(f"/object/{commit}" for commit in acknowledged)
    assert len(set(seen)) == 60
    tails = await store.tails(child.STREAMS)
    assert [tail.cumulative_size for tail in tails] == [6000, 6000, 6000]
    for position, tail in enumerate(tails):
        ends = sorted(each[position] for each in acknowledged.values())
        assert ends[-1] == tail.offset_end
        assert all(1 <= after - before <= 5 for before, after in pairwise([0, *ends]))
    await store.close()
    await check_commits(path, acknowledged)
