"""Where the topics of a query lie: what settings say, or a data directory alone.

`Settings` says all of it, but takes time to load, which a single query in a new process would
mostly spend waiting; so who knows the directory, and no other setting, says it with this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from towpath import data_dir


class Places(Protocol):
    """What a query asks of the settings."""

    @property
    def objects_url(self) -> str:
        """The object store."""

    @property
    def objects_options(self) -> Mapping[str, str]:
        """Options of the object store's service."""

    def metadata_path(self) -> Path | None:
        """The file of an SQLite metadata store; None for the others."""

    def objects_path(self) -> Path | None:
        """The directory of an object store on files; None for the others."""


@dataclass(frozen=True)
class DataDirectory:
    """Everything below one directory, as the settings have it where they say nothing else."""

    path: Path
    """Absolute."""

    @classmethod
    def at(cls, path: str) -> DataDirectory:
        """The directory of this name; it need not exist."""
        return cls(data_dir.absolute(path))

    @property
    def objects_url(self) -> str:
        return data_dir.objects_url(self.path)

    @property
    def objects_options(self) -> Mapping[str, str]:
        return {}

    def metadata_path(self) -> Path | None:
        return data_dir.sqlite_path(data_dir.metadata_url(self.path))

    def objects_path(self) -> Path | None:
        return data_dir.files_path(self.objects_url)
