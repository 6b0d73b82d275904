"""A session of one's own gets a Java that runs Spark, and the Python that has the source."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_towpath import prepare, session


def test_what_is_missing_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "java"
    monkeypatch.setattr(session, "SHIM_DIR", home)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "")
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
    prepare()
    assert os.environ["JAVA_HOME"] == str(home)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert session.UNIX_SOCKETS in os.environ["PYSPARK_SUBMIT_ARGS"]
    told = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True)
    assert 'version "21' in told.stderr


def test_what_is_set_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "java"
    monkeypatch.setattr(session, "SHIM_DIR", home)
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PYSPARK_PYTHON", "/my/python")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--name mine pyspark-shell")
    prepare()
    assert os.environ["PYSPARK_PYTHON"] == "/my/python"
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--name mine pyspark-shell"
    monkeypatch.setattr(session, "SHIM_DIR", tmp_path / "other")
    prepare()
    assert os.environ["JAVA_HOME"] == str(home)
