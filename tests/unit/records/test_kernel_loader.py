"""The kernel loads in the background, survives an unusable cache, and never loads by itself."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

from towpath.records import walk
from towpath.records.kernels import loader
from towpath.runtime import InlineOffload

P = ParamSpec("P")
R = TypeVar("R")


def run(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_validation_does_not_import_numba() -> None:
    code = "import sys, towpath.records.validate; print('numba' in sys.modules)"
    assert run(code) == "False"


async def test_loads_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_loaded", None)
    loading = loader.load_in_background(asyncio.get_running_loop(), InlineOffload())
    assert loader.kernel() is None
    assert await loading is True
    compiled = loader.kernel()
    assert compiled is not None
    assert compiled is loader.load()
    assert compiled(bytearray(b"\x80"), 1, 0, False) == walk.walk(b"\x80", 1, 0, False)


class BrokenOffload:
    """Fails as a machine without a working compiler would."""

    async def __call__(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        raise RuntimeError("no compiler")


async def test_a_failure_leaves_the_python_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_loaded", None)
    assert await loader.load_in_background(asyncio.get_running_loop(), BrokenOffload()) is False
    assert loader.kernel() is None


def test_an_unusable_cache_directory_is_survived(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    code = (
        "from towpath.records.kernels import jit, loader;"
        "print(jit.CACHED, loader.load()(b'', 0, 0, False).code)"
    )
    assert run(code, NUMBA_CACHE_DIR=str(file / "below")) == "False 0"


def test_the_cache_lies_in_the_users_cache_directory(tmp_path: Path) -> None:
    code = "from towpath.records.kernels import jit; print(jit.CACHED, jit.cache_directory())"
    cached, directory = run(code, XDG_CACHE_HOME=str(tmp_path), NUMBA_CACHE_DIR="").split(" ", 1)
    assert cached == "True"
    assert Path(directory).parent == tmp_path / "towpath" / "numba"
