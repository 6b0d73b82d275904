"""A process that commits to a table others commit to as well.

Arguments: the lake's directory, the task's name, and how many files to append. It appends one
record per commit at the table's end; after a conflict it looks again. It prints the offsets it got.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.unit.lakehouse.helpers_iceberg import TOPIC, Lake, append

from towpath.lakehouse.tables import CommitConflict


async def append_files(root: Path, name: str, count: int) -> None:
    lake = Lake.at(root)
    tables = lake.tables()
    table = await tables.load(TOPIC) or await tables.create(TOPIC)
    done = 0
    while done < count:
        end = table.mark(0).end
        file = lake.write(table.field_ids, 0, [end], name=f"{name}-{done}-{end}")
        try:
            change = append(table, (0, file), task=f"{name}-{done}")
            table = await tables.commit(table, change)
        except CommitConflict:
            loaded = await tables.load(TOPIC)
            assert loaded is not None
            table = loaded
            continue
        done += 1
        print(end, flush=True)
    await tables.close()


if __name__ == "__main__":
    asyncio.run(append_files(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
