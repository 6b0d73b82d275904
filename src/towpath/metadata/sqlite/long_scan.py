"""Scans of many keys: one snapshot, read in slices so that the event loop can breathe."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from towpath.metadata.sqlite.errors import unavailable
from towpath.metadata.sqlite.reader import READ_TIMEOUT_MS, SCAN_QUERY
from towpath.metadata.sqlite.schema import open_reader
from towpath.metadata.store import KeyValue

SLICE_KEYS = 128
"""Keys read between two turns of the loop: a few hundred microseconds."""


class LongScan:
    """Reads on a connection of its own, one scan at a time.

    An unfinished SELECT holds its snapshot, and so would every other statement of the same
    connection: point reads would see the past. A thread would not be faster: it hands the
    interpreter's lock back and forth at every row.
    """

    def __init__(self, path: Path) -> None:
        self._connection = open_reader(path, READ_TIMEOUT_MS)
        self._turn = asyncio.Lock()

    async def scan(self, start: str, end: str, limit: int) -> list[KeyValue]:
        """The first keys of `[start, end)` as of one moment. Raises StoreUnavailable."""
        found: list[KeyValue] = []
        async with self._turn:
            try:
                cursor = self._connection.execute(SCAN_QUERY, (start, end, limit))
                try:
                    while rows := cursor.fetchmany(SLICE_KEYS):
                        found += [KeyValue(*row) for row in rows]
                        await asyncio.sleep(0)
                finally:
                    cursor.close()
            except sqlite3.Error as error:
                raise unavailable(error) from error
        return found

    def close(self) -> None:
        """Release the connection."""
        self._connection.close()
