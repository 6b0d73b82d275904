"""`produce` and `consume` against the client library's own mock cluster, over real sockets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from towpath.cli.main import run

pytestmark = pytest.mark.needs_server


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    from confluent_kafka import Producer

    # The mock cluster lives as long as this client.
    client = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(client.list_topics(timeout=10).brokers.values()))
    yield f"{broker.host}:{broker.port}"
    client.flush(1)


@pytest.fixture
def towpath(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOWPATH_BOOTSTRAP", bootstrap)
    return tmp_path


def produce(directory: Path, topic: str, text: bytes, *flags: str) -> int:
    file = directory / "input"
    file.write_bytes(text)
    return run(["produce", topic, "--file", str(file), *flags])


def consumed(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capfd.readouterr()
    assert run(["consume", *arguments, "--from", "earliest", "--until-end"]) == 0
    return capfd.readouterr().out.splitlines()


def test_what_goes_in_comes_out(towpath: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert produce(towpath, "lines", b"a\nb\n\xff\n", "--partition", "0") == 0
    assert "towpath: 3 records acknowledged" in capfd.readouterr().err
    lines = consumed(capfd, "lines", "--output", "json")
    rows = [json.loads(line) for line in lines]
    assert [row["offset"] for row in rows] == [0, 1, 2]
    assert [row["value"] for row in rows] == ["a", "b", {"base64": "/w=="}]
    assert rows[0]["key"] is None
    assert rows[0]["headers"] == []
    table = consumed(capfd, "lines", "--output", "table", "--partition", "0")
    assert table[0].split() == ["partition", "offset", "timestamp", "key", "value"]
    assert table[3].endswith("\\xff")


def test_json_round_trip(towpath: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record = {
        "key": "k",
        "value": "v",
        "headers": [["h", "x"], ["h", None]],
        "partition": 1,
        "timestamp": 1_700_000_000_000,
    }
    text = json.dumps(record).encode()
    assert produce(towpath, "json", text, "--json", "--compression", "zstd") == 0
    (line,) = consumed(capfd, "json", "--output", "json")
    assert json.loads(line) == {"topic": "json", "offset": 0, **record}


def test_start_points_and_counts(towpath: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert produce(towpath, "points", b"0\n1\n2\n3\n", "--partition", "0") == 0
    for flags, expected in (
        (["--from", "1", "--count", "2"], ["1", "2"]),
        (["--from", "-1", "--until-end"], ["3"]),
        (["--from", "4", "--until-end"], []),
        (["--from", "latest", "--until-end"], []),
        (["--from", "2999-01-01", "--until-end"], []),
    ):
        capfd.readouterr()
        assert run(["consume", "points", "--partition", "0", *flags]) == 0
        assert capfd.readouterr().out.splitlines() == expected


def test_mistakes(towpath: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert produce(towpath, "errors", b"k:v\nnone\n", "--key-separator", ":") == 1
    assert "towpath: line 2: no key separator ':'" in capfd.readouterr().err
    for flags, message in (
        (["errors", "--partition", "0", "--from", "99"], "offset 99 is outside [0, "),
        (["errors", "--partition", "99"], "topic errors has no partition 99"),
        (["missing"], "topic missing: Broker: Unknown topic or partition"),
    ):
        assert run(["consume", *flags]) == 1
        error = capfd.readouterr().err
        assert error.startswith(f"towpath: {message}")
        assert error.count("\n") == 1


def test_a_closed_pipe_is_quiet(towpath: Path) -> None:
    assert produce(towpath, "pipe", b"x\n") == 0
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "towpath", "consume", "pipe", "--from", "earliest"]
    done = subprocess.run(
        [*command, "--until-end"], stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
