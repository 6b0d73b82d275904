"""How the C client is called and what becomes of its answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.client import Client, read_answer
from bench.errors import MeasurementFailed


def program(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_options_become_arguments(tmp_path: Path) -> None:
    client = Client(tmp_path / "client", "127.0.0.1:1")
    assert client.command("produce", topic="t", partitions=4) == [
        str(tmp_path / "client"), "produce", "bootstrap=127.0.0.1:1", "timeout_ms=60000",
        "topic=t", "partitions=4",
    ]  # fmt: skip
    assert "timeout_ms=5" in client.command("produce", timeout_ms=5)


def test_answer_is_read(tmp_path: Path) -> None:
    client = Client(program(tmp_path / "client", """echo '{"records": 3}'"""), "127.0.0.1:1")
    assert client.run("produce") == {"records": 3}


def test_failure_carries_the_reason(tmp_path: Path) -> None:
    client = Client(program(tmp_path / "client", "echo 'no broker' >&2; exit 1"), "127.0.0.1:1")
    with pytest.raises(MeasurementFailed, match="no broker"):
        client.run("produce")


def test_a_client_that_hangs_is_ended(tmp_path: Path) -> None:
    client = Client(program(tmp_path / "client", "exec sleep 600"), "127.0.0.1:1")
    process = client.start("produce")
    with pytest.raises(MeasurementFailed, match="did not end"):
        read_answer(process, timeout_s=0.05)
    assert process.returncode is not None
