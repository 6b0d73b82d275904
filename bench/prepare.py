"""Prepares what the benchmark needs: librdkafka, gcc, the client made with them, and Kafka's jars.

Run it (`python -m bench.prepare`) or let `towpath bench` call it: work that is done is not done
again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.integration.harness import java_tools

from bench.errors import BenchError
from bench.paths import CACHE, CLIENT_SOURCES

LIBRDKAFKA_HEADER = Path("/usr/include/librdkafka/rdkafka.h")
DEBIAN_PROGRAMS = {"gcc": "gcc", "java": "default-jre-headless", "mvn": "maven"}
"""Command to the Debian package that has it."""

COMPILER_FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror")
LIBRARIES = ("-lrdkafka", "-lm", "-pthread")


def missing_packages() -> list[str]:
    """Debian packages that are not here yet."""
    missing = [package for name, package in DEBIAN_PROGRAMS.items() if not shutil.which(name)]
    if "gcc" in missing:
        missing.append("libc6-dev")
    if not LIBRDKAFKA_HEADER.exists():
        missing.append("librdkafka-dev")
    return missing


def prepare_packages() -> None:
    """Install missing packages as root; otherwise raise BenchError with the line that does it."""
    missing = missing_packages()
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise BenchError(
            "the benchmark needs more programs: "
            f"sudo apt-get install -y --no-install-recommends {' '.join(missing)}"
        )
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    for command in (["apt-get", "update"], install):
        _run(command, environment)


def client_program() -> Path:
    """The client, compiled when its sources have changed."""
    sources = sorted(CLIENT_SOURCES.glob("*.c"))
    digest = hashlib.sha256()
    for source in [*sources, *CLIENT_SOURCES.glob("*.h")]:
        digest.update(source.read_bytes())
    program = CACHE / f"client-{digest.hexdigest()[:16]}"
    if not program.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = program.with_suffix(f".{os.getpid()}")
        _run(["gcc", *COMPILER_FLAGS, *map(str, sources), "-o", str(made), *LIBRARIES], None)
        made.rename(program)
    return program


def prepare() -> Path:
    """Prepare everything; the client's program."""
    prepare_packages()
    program = client_program()
    try:
        java_tools.class_path()
    except RuntimeError as error:
        raise BenchError(str(error)) from error
    return program


def _run(command: list[str], environment: dict[str, str] | None) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(
            f"{' '.join(command[:3])} failed with {done.returncode}:\n{done.stdout}{done.stderr}"
        )


if __name__ == "__main__":
    try:
        print(prepare())
    except BenchError as error:
        sys.exit(str(error))
