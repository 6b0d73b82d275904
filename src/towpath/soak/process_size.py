"""What a process and a directory take, from the kernel's books."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class ProcessSize(NamedTuple):
    """Resident memory and open files of one process."""

    rss_bytes: int
    handles: int


def size_of(pid: int) -> ProcessSize:
    """The sizes now; zeros for a process that has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        handles = len(os.listdir(f"/proc/{pid}/fd"))
    except (FileNotFoundError, ProcessLookupError):
        return ProcessSize(0, 0)
    return ProcessSize(pages * os.sysconf("SC_PAGE_SIZE"), handles)


def directory_bytes(directory: Path) -> int:
    """The bytes of all files below a directory; files that vanish meanwhile do not count."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name), follow_symlinks=False).st_size
            except FileNotFoundError:
                continue
    return total
