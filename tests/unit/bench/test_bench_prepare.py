"""What is prepared, and what is said when it cannot be."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from bench import prepare
from bench.errors import BenchError


def test_missing_packages_without_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(prepare, "LIBRDKAFKA_HEADER", tmp_path / "absent.h")
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "gcc" else name)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    line = "sudo apt-get install -y --no-install-recommends gcc libc6-dev librdkafka-dev"
    with pytest.raises(BenchError, match=line):
        prepare.prepare_packages()


def test_nothing_is_installed_when_all_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    header = tmp_path / "rdkafka.h"
    header.touch()
    monkeypatch.setattr(prepare, "LIBRDKAFKA_HEADER", header)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(prepare, "_run", lambda *_: pytest.fail("ran something"))
    prepare.prepare_packages()


def test_client_is_compiled_once_per_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources = tmp_path / "client"
    sources.mkdir()
    (sources / "main.c").write_text("int main(void) { return 0; }")
    compiled = []

    def compile_it(command: list[str], environment: dict[str, str] | None) -> None:
        compiled.append(command)
        Path(command[command.index("-o") + 1]).touch()

    monkeypatch.setattr(prepare, "CLIENT_SOURCES", sources)
    monkeypatch.setattr(prepare, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(prepare, "_run", compile_it)
    first = prepare.client_program()
    assert prepare.client_program() == first
    assert len(compiled) == 1
    (sources / "main.c").write_text("int main(void) { return 1; }")
    assert prepare.client_program() != first
    assert len(compiled) == 2
