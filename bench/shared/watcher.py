"""Watches tables as a reader of them does: with pyiceberg, through the catalog."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path
from typing import Any

from bench.errors import MeasurementFailed
from bench.shared.lag_samples import Seen

POLL_INTERVAL_S = 0.05
NAMESPACE = "towpath"
CATALOG_NAME = "towpath"
OFFSETS = "dray.offsets"
"""In a snapshot's summary: the end offset of each partition."""


class Watcher:
    """Looks while the context lasts. The catalog's rows tell which tables have changed; those are
    loaded, and what their current snapshot holds counts from then on."""

    def __init__(self, catalog_file: Path, topics: tuple[str, ...]) -> None:
        self._file = catalog_file
        self._catalog: Any = None
        self._locations: dict[str, str] = {}
        self._commits = dict.fromkeys(topics, 0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.failure: str | None = None
        """What the last look failed with."""
        self.seen: dict[tuple[str, int], list[Seen]] = {}

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def commits_min(self) -> int:
        """How often the table that changed least was seen to change."""
        return min(self._commits.values())

    def check(self) -> None:
        """Raise MeasurementFailed if the catalog could not be watched."""
        if self.failure is not None:
            raise MeasurementFailed(f"the catalog cannot be read: {self.failure}")

    def _watch(self) -> None:
        with contextlib.ExitStack() as stack:
            while not self._stop.wait(POLL_INTERVAL_S):
                self._try_to_look(stack)

    def _try_to_look(self, stack: contextlib.ExitStack) -> None:
        """A catalog that is just being made, or metadata that was just replaced, is looked at
        again; what stays wrong is told by `check`."""
        try:
            if self._catalog is None:
                if not self._file.exists():
                    return
                self._catalog = _open(self._file)
                stack.callback(self._catalog.close)
            self._look(self._catalog)
            self.failure = None
        except Exception as error:  # noqa: BLE001
            self.failure = " ".join(f"{type(error).__name__}: {error}".split())

    def _look(self, catalog: Any) -> None:
        for name, location in _locations(catalog):
            if name in self._commits and self._locations.get(name) != location:
                self._load(catalog, name)

    def _load(self, catalog: Any, name: str) -> None:
        table = catalog.load_table((NAMESPACE, name))
        at_ns = time.monotonic_ns()
        self._locations[name] = table.metadata_location
        snapshot = table.current_snapshot()
        if snapshot is None:
            return
        self._commits[name] += 1
        for partition, end in json.loads(snapshot.summary[OFFSETS]).items():
            seen = self.seen.setdefault((name, int(partition)), [])
            if not seen or end > seen[-1].end:
                seen.append(Seen(end, at_ns))


def check_rows(catalog_file: Path, topic: str, end: int) -> None:
    """Scan a topic's table; MeasurementFailed unless partition 0 has every offset below `end`
    exactly once."""
    catalog = _open(catalog_file)
    try:
        table = catalog.load_table((NAMESPACE, topic))
        rows = table.scan(row_filter="partition = 0", selected_fields=("offset",)).to_arrow()
    finally:
        catalog.close()
    offsets = sorted(rows.column("offset").to_pylist())
    if offsets[:end] != list(range(end)):
        raise MeasurementFailed(f"the table of {topic} does not hold every offset below {end} once")


def _open(file: Path) -> Any:
    from pyiceberg.catalog import load_catalog

    return load_catalog(
        CATALOG_NAME, type="sql", uri=f"sqlite:///{file}", init_catalog_tables="false"
    )


def _locations(catalog: Any) -> list[tuple[str, str]]:
    """Name and metadata file of every table."""
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import select

    with catalog.engine.connect() as connection:
        query = select(IcebergTables.table_name, IcebergTables.metadata_location)
        return [(name, location) for name, location in connection.execute(query)]
