"""The `./towpath` wrapper: the quick way, and what it says when Python is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

WRAPPER = Path(__file__).resolve().parents[3] / "towpath"
INPUTS = ("requirements.lock", "requirements-dev.lock", "pyproject.toml")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose `.venv` has a Python that only tells how it was called."""
    root = tmp_path / "check out"
    (root / ".venv" / "bin").mkdir(parents=True)
    shutil.copy2(WRAPPER, root / "towpath")
    for name in INPUTS:
        (root / name).write_text(name)
    python = root / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$TOWPATH_COMMAND|$*"\n')
    python.chmod(0o755)
    return root


def stamp(root: Path, kind: str) -> None:
    text = b"".join((root / name).read_bytes() for name in INPUTS)
    sums = subprocess.run(["cksum"], input=text, capture_output=True, check=True)
    (root / ".venv" / f"towpath-{kind}.stamp").write_bytes(sums.stdout)


def call(root: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path or os.environ["PATH"]}
    return subprocess.run(
        ["./towpath", *arguments], cwd=root, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("kind", "command"), [("run", "up"), ("dev", "up"), ("dev", "test"), ("run", "--version")]
)
def test_a_ready_environment_is_used_as_it_is(checkout: Path, kind: str, command: str) -> None:
    stamp(checkout, kind)
    done = call(checkout, command, "a b")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"./towpath|-m towpath {command} a b\n"


def without_python(tmp_path: Path) -> str:
    """A PATH with the tools the wrapper uses and no Python of any name."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("sh", "cat", "cksum", "dirname", "readlink", "env"):
        (directory / name).symlink_to(shutil.which(name) or name)
    return str(directory)


@pytest.mark.parametrize("case", ["no stamp", "test needs more", "changed", "broken"])
def test_otherwise_it_is_prepared_again(checkout: Path, tmp_path: Path, case: str) -> None:
    if case != "no stamp":
        stamp(checkout, "run")
    if case == "changed":
        (checkout / "requirements.lock").write_text("other")
    if case == "broken":
        (checkout / ".venv" / "bin" / "python").unlink()
    command = "test" if case == "test needs more" else "up"
    done = call(checkout, command, path=without_python(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("towpath: Python 3.11 or newer is needed; install it")
    assert done.stderr.count("\n") == 1


def test_a_python_without_venv(checkout: Path, tmp_path: Path) -> None:
    path = without_python(tmp_path)
    python = Path(path) / "python3"
    python.write_text("#!/bin/sh\ncase $2 in *ensurepip*) exit 1 ;; esac\n")
    python.chmod(0o755)
    done = call(checkout, "up", path=path)
    assert done.returncode == 1
    assert "this Python has no venv module" in done.stderr
    assert done.stderr.count("\n") == 1


def test_it_works_through_a_link(checkout: Path, tmp_path: Path) -> None:
    stamp(checkout, "run")
    link = tmp_path / "link"
    link.symlink_to(checkout / "towpath")
    done = subprocess.run([link, "up"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.endswith("|-m towpath up\n")
