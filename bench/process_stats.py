"""CPU time and resident memory of processes, from /proc."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

SAMPLE_INTERVAL_S = 0.1
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of the processes with all their threads."""
    return sum(parse_cpu_ticks(_read(pid, "stat")) for pid in pids) / _TICKS_PER_S


def parse_cpu_ticks(stat: str) -> int:
    """utime + stime of one /proc/<pid>/stat line, whose second field may hold anything."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) if fields else 0


def resident_bytes(pids: Iterable[int]) -> int:
    """Resident memory of the processes, file mappings included."""
    return sum(parse_resident_kib(_read(pid, "status")) for pid in pids) * 1024


def parse_resident_kib(status: str) -> int:
    """VmRSS of one /proc/<pid>/status; 0 for a process that is gone."""
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


class PeakResident:
    """The most resident memory seen while the context lasts."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak_bytes = 0

    def __enter__(self) -> PeakResident:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_INTERVAL_S):
            self._look()

    def _look(self) -> None:
        self.peak_bytes = max(self.peak_bytes, resident_bytes(self._pids))


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
