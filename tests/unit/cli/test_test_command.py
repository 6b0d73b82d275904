"""What `towpath test` runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from towpath.cli import test as command
from towpath.cli.errors import CliError


def test_pytest_command() -> None:
    assert command.pytest_command("not slow", ["-k", "x"])[1:] == [
        "-m", "pytest", "-m", "not slow", "-n", "3", "--dist", "loadfile", "-k", "x",
    ]  # fmt: skip
    assert command.pytest_command(None, ["--pdb"]) == [sys.executable, "-m", "pytest", "--pdb"]
    assert "loadfile" not in command.pytest_command(None, ["-n4"])


def test_checkout() -> None:
    assert (command.checkout() / "pyproject.toml").is_file()


def test_missing_packages_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "kcat" else name)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CliError, match="apt-get install -y kcat") as caught:
        command.prepare_packages()
    assert caught.value.exit_code == 2


def test_nothing_is_installed_when_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("ran something"))
    command.prepare_packages()


def test_java_hook_runs_only_where_it_exists(tmp_path: Path) -> None:
    command.prepare_java(tmp_path)
    hook = tmp_path / command.JAVA_TOOLS
    hook.parent.mkdir(parents=True)
    hook.write_text("import pathlib, sys; pathlib.Path('ran').touch(); sys.exit(0)")
    command.prepare_java(tmp_path)
    assert (tmp_path / "ran").exists()
    hook.write_text("import sys; sys.exit(1)")
    with pytest.raises(CliError, match="Java tools"):
        command.prepare_java(tmp_path)
