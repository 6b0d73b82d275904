"""Iceberg's own runtime for Spark and the SQLite driver for its catalog, fetched with Maven once.

Artifacts are named, never hosts: where they come from is the machine's Maven settings.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

from towpath.cli.table_lines import ICEBERG_RUNTIME, SQLITE_DRIVER

CACHE_DIR = Path(__file__).resolve().parents[3] / ".cache" / "iceberg"
FETCH_TIMEOUT_S = 600


def iceberg_jars() -> list[Path]:
    """The jars that the lines of `towpath tables describe` name. Safe to call from several
    processes at once; a failure shows what Maven said."""
    CACHE_DIR.mkdir(parents=True, exist_ok=True)
    with (CACHE_DIR / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return [_jar(artifact) for artifact in (ICEBERG_RUNTIME, SQLITE_DRIVER)]


def _jar(artifact: str) -> Path:
    _, name, version = artifact.split(":")
    jar = CACHE_DIR / f"{name}-{version}.jar"
    if not jar.exists():
        _fetch(artifact, jar)
    return jar


def _fetch(artifact: str, jar: Path) -> None:
    maven = shutil.which("mvn")
    assert maven is not None, "Iceberg's jars need Maven"
    unfinished = CACHE_DIR / "unfinished"
    command = [
        maven, "-q", "-B", "dependency:copy",
        f"-Dartifact={artifact}", f"-DoutputDirectory={unfinished}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S)
    assert done.returncode == 0, f"{artifact}: {(done.stdout + done.stderr)[-4000:]}"
    (unfinished / jar.name).rename(jar)
