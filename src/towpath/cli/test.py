"""`towpath test`: linters, type check and tests of a checkout; prepares what they need."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.errors import CliError, UsageError

HELP = """Run the linters, the type check and the tests of a checkout.

\b
--fast leaves out what starts brokers, --all adds the slow tests. Other arguments go to pytest.
Examples:
  towpath test
  towpath test --fast
  towpath test -- tests/unit/config -k alias
"""

CONTEXT_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}

DEBIAN_PACKAGES = {
    "kcat": "kcat",
    "strace": "strace",
    "java": "default-jre-headless",
    "mvn": "maven",
}
"""Command to the Debian package that has it."""

JAVA_TOOLS = Path("tests/integration/java/prepare.py")
"""Downloads the Java clients that some tests run, when it is there."""

WORKERS = "3"
"""Test processes. Tests wait for brokers more than they compute; files stay together."""

FAST_MARKERS = "not needs_server and not slow and not fuzz and not thorough"
DEFAULT_MARKERS = "not slow"
FAST_SIMULATION_SEEDS = "20"
"""As many seeds of the simulation as leave the fast tests at about two minutes."""


def run_tests(
    context: typer.Context,
    fast: Annotated[
        bool, typer.Option("--fast", help="No brokers, no packages; about two minutes.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="The slow tests too.")] = False,
) -> int:
    """Run everything; pytest's closing line, with the number of tests, comes last."""
    if fast and everything:
        raise UsageError("choose one of --fast and --all")
    root = checkout()
    if fast:
        os.environ.setdefault("TOWPATH_SIMULATION_SEEDS", FAST_SIMULATION_SEEDS)
    else:
        prepare_packages()
        prepare_java(root)
    failed = [name for name, command in lint_commands() if not _run(root, name, command)]
    if failed:
        print(f"failed: {', '.join(failed)}", flush=True)
    markers = FAST_MARKERS if fast else None if everything else DEFAULT_MARKERS
    passed = _run(root, "pytest", pytest_command(markers, context.args))
    return 0 if passed and not failed else 1


def checkout() -> Path:
    """The root of the checkout this package runs from; CliError when it is installed."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "pyproject.toml").is_file() or not (root / "tests").is_dir():
        raise CliError("test works in a checkout only, run ./towpath test there", 2)
    return root


def lint_commands() -> list[tuple[str, list[str]]]:
    """Name and command of each check that is no test."""
    python = [sys.executable, "-m"]
    return [
        ("ruff check", [*python, "ruff", "check"]),
        ("ruff format", [*python, "ruff", "format", "--check"]),
        ("mypy", [*python, "mypy"]),
    ]


def pytest_command(markers: str | None, arguments: Sequence[str]) -> list[str]:
    """The pytest command line; arguments of the user win over ours."""
    command = [sys.executable, "-m", "pytest"]
    if markers is not None:
        command += ["-m", markers]
    wants_one_process = {"-n", "--pdb", "-s"}.intersection(arguments) or any(
        argument.startswith(("-n", "--numprocesses")) for argument in arguments
    )
    if not wants_one_process:
        command += ["-n", WORKERS, "--dist", "loadfile"]
    return [*command, *arguments]


def _run(root: Path, name: str, command: list[str]) -> bool:
    print(f"== {name}", flush=True)
    try:
        return subprocess.run(command, cwd=root, check=False).returncode == 0
    except OSError as error:
        raise CliError(f"cannot run {name}: {error.strerror}") from error


def missing_packages() -> list[str]:
    """Debian packages whose commands are not here."""
    return [package for command, package in DEBIAN_PACKAGES.items() if not shutil.which(command)]


def prepare_packages() -> None:
    """Install missing Debian packages as root; otherwise say which line does it."""
    missing = missing_packages()
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise CliError(
            "the tests need more programs, install them or use --fast: "
            f"sudo apt-get install -y {' '.join(missing)}",
            2,
        )
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    for command in (["apt-get", "update"], install):
        print(f"== {' '.join(command)}", flush=True)
        done = subprocess.run(
            command, env=environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode:
            sys.stdout.write(done.stdout.decode("utf-8", "replace"))
            raise CliError(f"{' '.join(command)} failed with exit code {done.returncode}")


def prepare_java(root: Path) -> None:
    """Run the hook that fetches the Java clients, if the checkout has one."""
    if (root / JAVA_TOOLS).is_file() and not _run(
        root, "java tools", [sys.executable, str(JAVA_TOOLS)]
    ):
        raise CliError("the Java tools could not be prepared")
