"""Resolves Apache Kafka's broker and tools with Maven into one class path file.

Run it (`python tests/integration/java/prepare.py`) or let the tests call `class_path()`: the work
is done once per `pom.xml`, and again only when that file or a jar it led to has changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[2] / ".cache" / "kafka"
CLASSPATH_FILE = CACHE / "classpath.txt"
STAMP_FILE = CACHE / "pom.sha256"
RESOLVE_TIMEOUT_S = 600


class PrepareError(RuntimeError):
    """The class path could not be made; the message says what to do."""


def class_path() -> str:
    """The class path of Kafka's broker and tools, resolved on first use. Safe to call from several
    processes at once; raises PrepareError when Maven is absent or fails."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_fresh():
            _resolve()
        return CLASSPATH_FILE.read_text().strip()


def _digest() -> str:
    return hashlib.sha256((HERE / "pom.xml").read_bytes()).hexdigest()


def _is_fresh() -> bool:
    """Whether the file was made from this pom and every jar it names is still there."""
    if not (CLASSPATH_FILE.exists() and STAMP_FILE.exists()):
        return False
    if STAMP_FILE.read_text().strip() != _digest():
        return False
    return all(Path(jar).exists() for jar in CLASSPATH_FILE.read_text().strip().split(os.pathsep))


def _resolve() -> None:
    """Run Maven. The stamp is written last, so that a failed run is never taken for a good one."""
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None:
        raise PrepareError(
            "Apache Kafka's tools need Java 17 or newer and Maven: neither was found"
            if maven is None
            else "Apache Kafka's tools need Java 17 or newer"
        )
    STAMP_FILE.unlink(missing_ok=True)
    command = [
        maven, "-q", "-B", "-f", str(HERE / "pom.xml"),
        "dependency:build-classpath", f"-Dmdep.outputFile={CLASSPATH_FILE}",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RESOLVE_TIMEOUT_S)
    except subprocess.TimeoutExpired as late:
        raise PrepareError(f"Maven did not finish within {RESOLVE_TIMEOUT_S} s") from late
    if done.returncode != 0 or not CLASSPATH_FILE.exists():
        raise PrepareError(
            f"Maven could not resolve {HERE / 'pom.xml'} (exit code {done.returncode}):\n"
            f"{(done.stdout + done.stderr)[-4000:]}"
        )
    STAMP_FILE.write_text(_digest() + "\n")


if __name__ == "__main__":
    try:
        jars = class_path().split(os.pathsep)
    except PrepareError as error:
        sys.exit(str(error))
    print(f"{len(jars)} jars in {CLASSPATH_FILE}")
