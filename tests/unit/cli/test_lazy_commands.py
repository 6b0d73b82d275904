"""A command loads its own module, and the help has every command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from towpath.cli import commands
from towpath.cli.main import run

MODULES = [f"towpath.cli.{name}" for name in commands.COMMANDS]


def loaded(*arguments: str) -> set[str]:
    """The modules of commands that a new process has loaded after this command line."""
    script = (
        "import sys\n"
        "from towpath.cli.main import run\n"
        f"run({list(arguments)!r})\n"
        f"print(*(name for name in {MODULES!r} if name in sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("name", ["sql", "produce", "config"])
def test_a_command_loads_no_other(name: str) -> None:
    assert loaded(name, "--help") == {f"towpath.cli.{name}"}


def test_the_help_loads_all() -> None:
    assert loaded("--help") == set(MODULES)


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_a_command_has_the_same_help_alone(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run([name, "--help"]) == 0
    alone = capsys.readouterr().out
    monkeypatch.setattr(commands, "_names", lambda _: list(commands.COMMANDS))
    assert run([name, "--help"]) == 0
    assert capsys.readouterr().out == alone
    assert alone.startswith("Usage: ")


def test_every_command_has_a_line_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first_words = [line.split()[0] for line in lines if line.startswith("  ") and line.split()]
    assert set(first_words) >= set(commands.COMMANDS)


def test_commands_are_modules() -> None:
    directory = Path(commands.__file__).parent
    assert all((directory / f"{name}.py").exists() for name in commands.COMMANDS)
