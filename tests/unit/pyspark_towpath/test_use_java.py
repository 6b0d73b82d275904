"""A session of one's own gets a Java that runs Spark."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pyspark_towpath import java, use_java


def test_the_packaged_java_is_used_where_none_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "SHIM_DIR", tmp_path / "java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    home = use_java()
    assert os.environ["JAVA_HOME"] == str(home) == str(tmp_path / "java")
    told = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True)
    assert 'version "21' in told.stderr
    assert use_java() == home
