"""CPU time and peak memory of a tree of processes."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.shared.process_tree import (
    DRIVER,
    ENDED,
    TOTAL,
    WORKERS,
    PeakMemory,
    cpu_seconds_by_role,
    data_bytes,
    parse_cpu_ticks,
    parse_kib,
    processes_of,
    tree_cpu_seconds,
)

STAT = "7 (a) b (c) S 1 7 7 0 -1 4194560 10 0 0 0 123 45 6 7 20 0 1 0 99 1000 200"
NO_SUCH_PID = 2**22 + 1
BURN = "import time\nwhile time.process_time() < 0.3: pass\n"
HOLD = "import sys\nheld = b'x' * (64 << 20)\nprint(len(held), flush=True)\nsys.stdin.read()\n"


def test_parse() -> None:
    assert parse_cpu_ticks(STAT) == (168, 13)
    assert parse_cpu_ticks("") == (0, 0)
    assert parse_kib("VmHWM:\t 900 kB\nVmData:\t 850 kB\n", "VmData") == 850
    assert parse_kib("State:\tZ (zombie)\n", "VmHWM") == 0


def test_children_that_have_ended_count() -> None:
    before = cpu_seconds_by_role(os.getpid())
    subprocess.run([sys.executable, "-c", BURN], check=True)
    after = cpu_seconds_by_role(os.getpid())
    assert after[ENDED] - before[ENDED] >= 0.25
    assert tree_cpu_seconds(os.getpid()) >= sum(before.values()) + 0.25


def test_a_process_that_is_gone_counts_nothing() -> None:
    assert tree_cpu_seconds(NO_SUCH_PID) == 0
    assert data_bytes(NO_SUCH_PID) == 0


def test_peak_memory_by_role() -> None:
    with PeakMemory(os.getpid()) as watched:
        child = subprocess.Popen(
            [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        child.stdout.readline()
        assert {process.role for process in processes_of(os.getpid())} >= {DRIVER, WORKERS}
        watched.look()
        child.communicate()
    peaks = watched.by_role
    assert peaks[DRIVER] > 10_000_000
    assert peaks[WORKERS] >= 64 << 20
    assert peaks[TOTAL] >= peaks[DRIVER] + peaks[WORKERS] - (1 << 20)
