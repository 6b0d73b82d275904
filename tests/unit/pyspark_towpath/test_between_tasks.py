"""What is made cheaper between two tasks of a Spark worker, in a process like one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pyspark_towpath.between_tasks import REUSED

WORKER = """
import gc, importlib, json, sys
from zipimport import zipimporter
import in_spark.one, of_user
from pyspark_towpath.between_tasks import lighten

def archives():
    found = sys.path_importer_cache.values()
    return sorted({finder.archive for finder in found if isinstance(finder, zipimporter)})

lighten()
frozen = gc.get_freeze_count()
left = archives()
lighten()
import in_spark.two
print(json.dumps({"frozen": frozen, "again": gc.get_freeze_count(), "left": left,
                  "two": in_spark.two.__file__}))
"""


@pytest.fixture
def archives(tmp_path: Path) -> list[Path]:
    """One as Spark's, and one that a user has added."""
    spark, user = tmp_path / "pyspark.zip", tmp_path / "of_user.zip"
    with zipfile.ZipFile(spark, "w") as archive:
        for name in ("__init__", "one", "two"):
            archive.writestr(f"in_spark/{name}.py", "")
    with zipfile.ZipFile(user, "w") as archive:
        archive.writestr("of_user.py", "")
    return [spark, user]


def run(archives: list[Path], environment: dict[str, str]) -> dict[str, Any]:
    """What a process tells that has the archives on its path."""
    path = os.pathsep.join([*map(str, archives), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", WORKER],
        env={**os.environ, **environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_a_worker_keeps_what_is_loaded_and_reads_no_archive_again(archives: list[Path]) -> None:
    spark, user = archives
    told = run(archives, {REUSED: "1"})
    assert told["frozen"] > 0
    assert told["again"] == told["frozen"]
    assert told["left"] == [str(user)]
    assert told["two"] == str(spark / "in_spark" / "two.py")


def test_other_processes_are_left_alone(archives: list[Path]) -> None:
    told = run(archives, {})
    assert told["frozen"] == 0
    assert told["left"] == sorted(map(str, archives))
