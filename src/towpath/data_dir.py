"""What lies where below a data directory, unless settings say otherwise: the embedded layout.

The settings take their defaults from here, and so does whoever knows nothing but the directory and
must not wait until the settings are loaded. Therefore it imports nothing of this project.
"""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT = "towpath-data"
"""The directory of whoever names none."""
SQLITE = "sqlite:///"
FILES = "file://"


def absolute(path: str | os.PathLike[str]) -> Path:
    """The path made absolute, so that every process of a cluster means the same directory."""
    return Path(path).expanduser().absolute()


def metadata_url(data_dir: Path) -> str:
    """The metadata store of an absolute data directory."""
    return f"{SQLITE}{data_dir}/metadata.sqlite"


def objects_url(data_dir: Path) -> str:
    """The object store of an absolute data directory."""
    return f"{FILES}{data_dir}/objects"


def sqlite_path(url: str) -> Path | None:
    """The file of an SQLite metadata store; None for the others."""
    return absolute(url.removeprefix(SQLITE)) if url.startswith(SQLITE) else None


def files_path(url: str) -> Path | None:
    """The directory of an object store on files; None for the others."""
    return absolute(url.removeprefix(FILES)) if url.startswith(FILES) else None
