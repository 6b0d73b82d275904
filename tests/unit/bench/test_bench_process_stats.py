"""What /proc tells."""

from __future__ import annotations

import os

from bench.process_stats import (
    PeakResident,
    cpu_seconds,
    parse_cpu_ticks,
    parse_resident_kib,
    resident_bytes,
)

STAT = "7 (a) b (c) S 1 7 7 0 -1 4194560 10 0 0 0 123 45 6 7 20 0 1 0 99 1000 200"
NO_SUCH_PID = 2**22 + 1


def test_parse_cpu_ticks() -> None:
    assert parse_cpu_ticks(STAT) == 168
    assert parse_cpu_ticks("") == 0


def test_parse_resident_kib() -> None:
    assert parse_resident_kib("Name:\tx\nVmHWM:\t 900 kB\nVmRSS:\t 850 kB\n") == 850
    assert parse_resident_kib("Name:\tx\nState:\tZ (zombie)\n") == 0


def test_a_process_that_is_gone_counts_nothing() -> None:
    assert cpu_seconds([NO_SUCH_PID]) == 0
    assert resident_bytes([NO_SUCH_PID]) == 0


def test_peak_of_this_process() -> None:
    with PeakResident([os.getpid()]) as watched:
        pass
    assert watched.peak_bytes > 1_000_000
