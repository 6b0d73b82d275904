"""Spark's daemon of Python workers, without the archives that Spark puts on its path.

Spark lets workers import pyspark from an archive of sources, beside the jar of its core, although
it is installed. Compiling these takes a second at the start, and both archives' directories are
read again before every task: 0.2 s of CPU time, more than a small task itself. Spark runs this
module in the place of `pyspark.daemon`, with the same arguments.

What jobs need is loaded before workers are forked, which then have it at once and share its memory:
Spark ends workers that had nothing to do for a minute, and loading it takes a second or two.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from towpath.freed_memory import keep_freed_memory


def without_archives(path: list[str], package: Path) -> list[str]:
    """The path of modules without jars, and without the archives that `package`, the directory of
    the installed pyspark, has of itself. Those of another Spark stay: they belong to its JVM."""
    archives = package / "python" / "lib"
    return [
        entry
        for entry in path
        if not entry.endswith(".jar")
        and not (entry.endswith(".zip") and Path(os.path.realpath(entry)).parent == archives)
    ]


def installed_pyspark(path: list[str]) -> Path | None:
    """The directory of the pyspark that is installed, whatever archives come before it."""
    outside = [entry for entry in path if not entry.endswith((".zip", ".jar"))]
    spec = importlib.machinery.PathFinder.find_spec("pyspark", outside)
    if spec is None or spec.origin is None:
        return None
    return Path(os.path.realpath(spec.origin)).parent


def main() -> None:
    """Serve as Spark's daemon until its standard input ends."""
    keep_freed_memory()
    package = installed_pyspark(sys.path)
    if package is not None:
        sys.path[:] = without_archives(sys.path, package)
        sys.path_importer_cache.clear()
    daemon: Any = importlib.import_module("pyspark.daemon")
    with _quiet_output(), contextlib.suppress(Exception):
        # What cannot be loaded is missed again by the job that needs it, which can say so.
        importlib.import_module("towpath.lakehouse.runners.preload").preload()
    # What is there now stays: workers need not look through it for garbage after every task.
    gc.collect()
    gc.freeze()
    daemon.manager()


@contextlib.contextmanager
def _quiet_output() -> Iterator[None]:
    """Let what is printed go to the standard error: Spark reads the daemon's port from its standard
    output, and takes anything else for it."""
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


if __name__ == "__main__":
    main()
