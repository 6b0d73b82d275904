"""What Spark's Python workers do between two tasks, made cheaper.

A worker that is used again first looks for garbage among everything that is loaded, and then reads
the directories of Spark's own archives again, once for each package in them: 0.2 s of CPU time,
more than it takes to plan a read or to read a small slice. The compactor's workers have a daemon of
their own for that (`worker_daemon`); in a user's session the workers are Spark's.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from pathlib import Path
from zipimport import zipimporter

from towpath.freed_memory import keep_freed_memory

REUSED = "SPARK_REUSE_WORKER"
"""In the environment of workers that are used again, and nowhere else."""
_ARCHIVES = ("pyspark.zip", "py4j-", "spark-core_")


def settle_in() -> None:
    """Call it at the beginning of a task that needs memory for one batch after the other."""
    if REUSED in os.environ:
        keep_freed_memory()


def lighten() -> None:
    """Call it at the end of a task, when everything that is needed has been loaded. Elsewhere than
    in Spark's workers it does nothing."""
    if REUSED not in os.environ:
        return
    forget_archives()
    _freeze_once()


@functools.cache
def _freeze_once() -> None:
    """What is loaded stays: there is no garbage to be found in it. Only once, so that what becomes
    garbage later is still found. (`gc.get_freeze_count` could tell, but counts it all: 8 ms.)"""
    gc.freeze()


def forget_archives() -> None:
    """Forget who imports from Spark's archives. Whoever imports again is told by Python, from the
    directory that it has of each archive, without reading it again."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and Path(finder.archive).name.startswith(_ARCHIVES):
            del sys.path_importer_cache[path]
