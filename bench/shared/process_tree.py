"""CPU time and peak memory of a process and its descendants, from /proc."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.integration.harness.process_tree import descendants

SAMPLE_INTERVAL_S = 0.05
DRIVER, JVM, WORKERS, TOTAL, ENDED = "driver", "jvm", "workers", "total", "ended"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_RESET_PEAK = "5"


@dataclass(frozen=True)
class Process:
    """A process of a pipeline and its part in it."""

    pid: int
    role: str


def processes_of(driver: int) -> list[Process]:
    """The driver, its JVM, and everything else, which are Python workers and their daemon."""
    others = [
        Process(pid, JVM if read(pid, "comm").strip() == "java" else WORKERS)
        for pid in descendants(driver)
    ]
    return [Process(driver, DRIVER), *others]


def tree_cpu_seconds(pid: int) -> float:
    """User and system time of the process and all its descendants, those included that have ended
    and were waited for."""
    return sum(cpu_seconds_by_role(pid).values())


def cpu_seconds_by_role(driver: int) -> dict[str, float]:
    """The same by role; children that have ended are a role of their own."""
    found = dict.fromkeys((DRIVER, JVM, WORKERS, ENDED), 0.0)
    for process in processes_of(driver):
        own, ended = parse_cpu_ticks(read(process.pid, "stat"))
        found[process.role] += own / _TICKS_PER_S
        found[ENDED] += ended / _TICKS_PER_S
    return found


def parse_cpu_ticks(stat: str) -> tuple[int, int]:
    """utime + stime and cutime + cstime of a /proc/<pid>/stat line; 0 if the process is gone."""
    ticks = [int(field) for field in stat.rpartition(")")[2].split()[11:15]]
    return sum(ticks[:2]), sum(ticks[2:])


def parse_kib(status: str, name: str) -> int:
    """A size of /proc/<pid>/status; 0 for a process that is gone."""
    for line in status.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0


def data_bytes(pid: int) -> int:
    """Private memory that the process may write to, used or not: what RLIMIT_DATA counts."""
    return parse_kib(read(pid, "status"), "VmData") * 1024


class PeakMemory:
    """The most resident memory of a tree of processes while the context lasts, by role.

    The kernel keeps the peak of each process, so none is missed between two samples; those of
    processes that live at the same time are added up although they may be moments apart.
    """

    def __init__(self, driver: int) -> None:
        self._driver = driver
        self.by_role = dict.fromkeys((DRIVER, JVM, WORKERS, TOTAL), 0)
        """Bytes by role, and of all together."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        reset_peaks(process.pid for process in processes_of(self._driver))
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
        self.look()

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_INTERVAL_S):
            self.look()

    def look(self) -> None:
        """Take a sample."""
        sums = dict.fromkeys(self.by_role, 0)
        for process in processes_of(self._driver):
            peak_bytes = parse_kib(read(process.pid, "status"), "VmHWM") * 1024
            sums[process.role] += peak_bytes
            sums[TOTAL] += peak_bytes
        self.by_role = {role: max(size, sums[role]) for role, size in self.by_role.items()}


def reset_peaks(pids: Iterable[int]) -> None:
    """Let the kernel forget the peaks so far; processes that are gone do not matter."""
    for pid in pids:
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)


def read(pid: int, name: str) -> str:
    """A file of /proc/<pid>; empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
