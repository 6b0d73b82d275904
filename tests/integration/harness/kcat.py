"""Runs kcat, the command line client on librdkafka in C."""

from __future__ import annotations

import subprocess

KCAT_TIMEOUT_S = 60


def kcat(bootstrap: str, *args: str, stdin: bytes = b"", check: bool = True) -> bytes:
    """Run kcat to its end; its stdout. With `check`, a failure shows its stderr."""
    done = run_kcat(bootstrap, *args, stdin=stdin)
    if check:
        assert done.returncode == 0, f"kcat {args}: {done.returncode}\n{done.stderr.decode()}"
    return done.stdout


def run_kcat(bootstrap: str, *args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run kcat to its end, whatever its exit code."""
    return subprocess.run(
        ["kcat", "-b", bootstrap, *args],
        input=stdin,
        capture_output=True,
        timeout=KCAT_TIMEOUT_S,
    )
