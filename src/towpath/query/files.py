"""How DuckDB reaches a topic's Parquet files where they are files: by their names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from towpath.log.object.stretches import DataFile
from towpath.objects.store import ObjectNotFound, ObjectStoreError


class Files(Protocol):
    """The Parquet files of one statement at a time."""

    def forget(self) -> None:
        """The next statement begins: nothing of the last one is read any more."""

    def name(self, file: DataFile) -> str:
        """What `read_parquet` is told."""

    def failure(self, files: Iterable[DataFile]) -> ObjectStoreError | None:
        """Why DuckDB could not read these files, if it was their fault: ObjectNotFound for one that
        is gone."""


class LocalFiles:
    """Files below a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def forget(self) -> None:
        """Names need nothing that could be forgotten."""

    def name(self, file: DataFile) -> str:
        return str(self._root / file.path)

    def failure(self, files: Iterable[DataFile]) -> ObjectStoreError | None:
        missing = (file.path for file in files if not os.path.exists(self.name(file)))
        path = next(missing, None)
        return None if path is None else ObjectNotFound(path)
