"""The identity of the machine's present run, which monotonic time counts from."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

_LINUX = Path("/proc/sys/kernel/random/boot_id")
_UNKNOWN = "unknown"
"""Where a boot has no identity, a restart shows only as a monotonic clock that went back."""


@functools.cache
def boot_id() -> str:
    """A string that differs after every restart of the machine, where the platform has one."""
    try:
        if sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5)
            return answer.stdout.strip() or _UNKNOWN
        return _LINUX.read_text().strip() or _UNKNOWN
    except (OSError, subprocess.SubprocessError):
        return _UNKNOWN
