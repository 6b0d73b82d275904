"""A process that commits to a SQLite store until it is killed.

Arguments: the database, a name, and how many commits to make (0: no end). After each commit that
was acknowledged it prints a line: the commit's number and the new ends of its streams.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from towpath.metadata.sqlite.store import SqliteStore
from towpath.metadata.store import Append, Put
from towpath.runtime import inline_runtime

STREAMS = (1, 2, 3)


async def commit_until_killed(path: Path, name: str, count: int) -> None:
    """Commit one append per stream and one object record at a time, two commits in flight."""
    store = await SqliteStore.open(path, inline_runtime())
    chance = random.Random(name)

    async def commit(number: int) -> None:
        value = f"{name}-{number}".encode()
        appends = [Append(stream, chance.randint(1, 5), 100, value) for stream in STREAMS]
        done = await store.commit(0, appends=appends, puts=[Put(f"/object/{name}-{number}", value)])
        ends = " ".join(str(tail.offset_end) for tail in done.tails)
        print(f"{number} {ends}", flush=True)

    number = 0
    while count == 0 or number < count:
        await asyncio.gather(commit(number), commit(number + 1))
        number += 2
    await store.close()


if __name__ == "__main__":
    asyncio.run(commit_until_killed(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
