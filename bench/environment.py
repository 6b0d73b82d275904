"""What the numbers were measured on and with."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path

from bench.paths import ROOT
from bench.systems import HEAP_FLAGS, kafka_version

UNKNOWN = "unknown"


def describe_environment(directory: Path) -> dict[str, object]:
    """Machine, versions and date; `directory` is where the brokers keep their data."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 0,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "file_system": _output(["findmnt", "-n", "-o", "FSTYPE", "-T", str(directory)]),
        "python": platform.python_version(),
        "commit": _output(["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]),
        "kafka": kafka_version(),
        "kafka_heap": " ".join(HEAP_FLAGS),
        "java": _java_version(),
        "librdkafka": _output(["dpkg-query", "-W", "-f", "${Version}", "librdkafka1"]),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _java_version() -> str:
    done = _output(["java", "--version"])
    return done.splitlines()[0] if done else UNKNOWN


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    return done.stdout.strip() if done.returncode == 0 else UNKNOWN
