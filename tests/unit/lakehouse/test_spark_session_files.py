"""What a session is told, and which files it has."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

import pytest

import towpath
from towpath.lakehouse.java import Java
from towpath.lakehouse.runners import spark_conf, worker_daemon
from towpath.lakehouse.runners.preload import preload
from towpath.lakehouse.runners.spark_directory import SessionDirectory
from towpath.lakehouse.runners.spark_settings import SparkSettings

JAVA = Java(Path("/java home"), 21, packaged=True)
SOURCE = str(Path(towpath.__file__).resolve().parents[1])


def read_properties(file: Path) -> dict[str, str]:
    """The lines of a properties file as they are, escapes included."""
    lines = file.read_text(encoding="ascii").splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_settings_are_written_for_their_owner_only(tmp_path: Path) -> None:
    directory = SessionDirectory.make(tmp_path / "a b")
    conf = {"spark.ui.port": "1234", "spark.hadoop.key": "päss:1", "spark.x": " y\n"}
    settings = SparkSettings(tmp_path / "a b", conf=conf, driver_memory_mb=600)
    file = spark_conf.write_conf(settings, directory)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    written = read_properties(file)
    assert written["spark.master"] == "local[*,4]"
    assert written["spark.driver.memory"] == "600m"
    assert written["spark.ui.port"] == "1234"
    assert written["spark.hadoop.key"] == "p\\u00e4ss\\:1"
    assert written["spark.x"] == "\\ y\\u000a"
    assert written["spark.driver.host"] == "127.0.0.1"
    options = written["spark.driver.extraJavaOptions"]
    tmp = str(directory.path / "tmp").replace(" ", "\\ ")
    assert f'"-Djava.io.tmpdir\\={tmp}"' in options
    directory.remove()
    assert os.listdir(tmp_path / "a b") == []


def test_options_of_the_user_come_last(tmp_path: Path) -> None:
    directory = SessionDirectory.make(tmp_path)
    conf = {spark_conf.JAVA_OPTIONS: "-XX:TieredStopAtLevel=4"}
    settings = SparkSettings(tmp_path, conf=conf, ui_port=None)
    written = read_properties(spark_conf.write_conf(settings, directory))
    assert written[spark_conf.JAVA_OPTIONS].endswith("-XX\\:TieredStopAtLevel\\=4")
    assert written["spark.ui.enabled"] == "false"
    assert "spark.ui.port" not in written
    directory.remove()


def test_a_local_session_takes_nothing_over_from_another_spark(tmp_path: Path) -> None:
    given = {"SPARK_CONF_DIR": "/etc/spark", "PYSPARK_PYTHON": "python2", "HOME": "/root"}
    local = spark_conf.environment(SparkSettings(tmp_path), JAVA, given)
    assert "SPARK_CONF_DIR" not in local
    assert local["PYSPARK_PYTHON"] == sys.executable
    assert (local["HOME"], local["JAVA_HOME"]) == ("/root", "/java home")
    cluster = SparkSettings(tmp_path, master="yarn", conf={"spark.pyspark.python": "/py"})
    environment = spark_conf.environment(cluster, JAVA, given)
    assert environment["SPARK_CONF_DIR"] == "/etc/spark"
    assert environment["PYSPARK_PYTHON"] == "/py"


def test_workers_find_towpath_wherever_they_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    given = f"relative{os.pathsep}{os.pathsep}/absolute"
    expected = [SOURCE, os.path.abspath("relative"), "/absolute"]
    assert spark_conf.python_path(given).split(os.pathsep) == expected
    monkeypatch.setattr(sysconfig, "get_path", lambda name: SOURCE)
    assert spark_conf.python_path() == ""


def test_a_directory_in_use_is_kept_and_an_abandoned_one_removed(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[2])\n"
        "from towpath.lakehouse.runners.spark_directory import SessionDirectory\n"
        "made = SessionDirectory.make(pathlib.Path(sys.argv[1])); made.subdirectory('tmp')\n"
        "print(made.path, flush=True); sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path), SOURCE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    theirs = Path(other.stdout.readline().strip())
    ours = SessionDirectory.make(tmp_path)
    assert theirs.exists()
    other.kill()
    other.communicate()
    third = SessionDirectory.make(tmp_path)
    assert not theirs.exists()
    assert ours.path.exists()
    for directory in (ours, third):
        directory.remove()
    assert os.listdir(tmp_path) == []


def test_the_daemon_says_nothing_but_its_port_and_ends_with_its_input(tmp_path: Path) -> None:
    """What is loaded for the workers may print, as a logger that nobody configured does."""
    (tmp_path / "numba.py").write_text("print('from numba'); raise ImportError")
    archive = spark_conf.spark_home() / "python" / "lib" / "pyspark.zip"
    path = os.pathsep.join([str(archive), str(tmp_path), SOURCE])
    daemon = subprocess.Popen(
        [sys.executable, "-m", spark_conf.WORKER_DAEMON, "pyspark.worker"],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert daemon.stdout is not None
    (port,) = struct.unpack(">i", daemon.stdout.read(4))
    assert 1024 < port < 65536
    said, complaints = daemon.communicate()
    assert (said, complaints) == (b"", b"from numba\n")


def test_preloading_decodes_and_starts_no_threads() -> None:
    preload()
    before = threading.active_count()
    preload()
    assert threading.active_count() == before


def test_workers_import_the_installed_pyspark_and_not_its_archive() -> None:
    package = spark_conf.spark_home()
    archives = package / "python" / "lib"
    path = ["", str(archives / "pyspark.zip"), str(archives / "py4j-src.zip")]
    path += [str(package / "jars" / "spark-core.jar"), "/mine.zip", "/opt/python/lib/pyspark.zip"]
    kept = worker_daemon.without_archives([*path, *sys.path], package)
    assert kept == ["", "/mine.zip", "/opt/python/lib/pyspark.zip", *sys.path]
    found = worker_daemon.installed_pyspark([*path[1:], *sys.path])
    assert found == Path(os.path.realpath(package))
    assert worker_daemon.installed_pyspark(["/mine.zip"]) is None
