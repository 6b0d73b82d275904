"""Exit codes and one-line errors of the commands, called in this process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from towpath import __version__
from towpath.cli.main import run


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TOWPATH_CONFIG", "TOWPATH_BOOTSTRAP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TOWPATH_COMMAND", "towpath")
    monkeypatch.chdir(tmp_path)


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("upp", 2, "No such command 'upp'"),
        ("up --brokrs 2", 2, "No such option: --brokrs"),
        ("up --kafka-port", 2, "Option '--kafka-port' requires an argument"),
        ("up --kafka-port x", 2, "kafka_port = x (flag --kafka-port): should be a valid integer"),
        ("up --brokers 0", 2, "brokers = 0 (flag --brokers): should be greater than"),
        ("up --set kafka_prt=1", 2, "unknown setting 'kafka_prt' (flag --set kafka_prt), did you"),
        ("up --set kafka_port", 2, "--set wants NAME=VALUE, not 'kafka_port'"),
        ("up --kafka-port 1 --set kafka.port=2", 2, "kafka_port is given twice: flag --kafka-port"),
        ("broker --config none.yaml", 2, "cannot read none.yaml: No such file or directory"),
        ("topics create", 2, "Missing argument 'NAME'"),
        ("topics create a --config b", 2, "--config wants NAME=VALUE, not 'b'"),
        ("topics create a --partitions 0", 2, "Invalid value for '--partitions'"),
        ("topics alter a", 2, "nothing to change"),
        ("topics list --bootstrap nonsense", 2, "--bootstrap wants HOST:PORT, not 'nonsense'"),
        ("consume a --from when", 2, "--from wants earliest, latest"),
        ("consume a --output xml", 2, "Invalid value for '--output'"),
        ("produce a --json --binary", 2, "choose one of --json"),
        ("produce a --acks 2", 2, "Invalid value for '--acks'"),
        ("produce a --acks 1 --idempotent", 2, "--idempotent needs --acks all"),
        ("produce a --header x", 2, "--header wants NAME=VALUE, not 'x'"),
        ("produce a --file none", 1, "cannot read none: No such file or directory"),
        ("test --fast --all", 2, "choose one of --fast and --all"),
    ],
)
def test_mistakes_get_one_line(
    line: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split()) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"towpath: {message}")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    "line", ["topics list", "topics delete x --yes", "consume x", "produce x --file /dev/null"]
)
def test_nobody_listens(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{unused_port()}"
    assert run([*line.split(), "--bootstrap", address]) == 1
    expected = f"towpath: no broker answers at {address}: Connection refused\n"
    assert capsys.readouterr().err == expected


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"towpath {__version__}\n"
    for line in ([], ["--help"], ["up", "--help"], ["topics"], ["topics", "create", "-h"]):
        assert run(line) == 0
        assert capsys.readouterr().out.startswith("Usage: towpath")


@pytest.mark.parametrize("command", ["up", "produce", "consume", "topics", "config show", "test"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--help"]) == 0
    assert f"  towpath {command}" in capsys.readouterr().out


def test_config_show(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("log.retention.hours: 1\n")
    monkeypatch.setenv("TOWPATH_LINGER_MS", "50")
    monkeypatch.setenv("TOWPATH_LINGERING", "50")
    flags = ["--config", str(file), "--set", "num.partitions=3"]
    assert run(["config", "show", *flags, "--output", "json"]) == 0
    printed = capsys.readouterr()
    rows = {row["setting"]: row for row in json.loads(printed.out)}
    assert rows["log_retention_ms"]["value"] == 3_600_000
    assert rows["log_retention_ms"]["source"] == f"file {file}: log.retention.hours"
    assert rows["linger_ms"]["source"] == "environment TOWPATH_LINGER_MS"
    assert rows["num_partitions"]["source"] == "flag --set num.partitions"
    assert rows["kafka_port"] == {
        "setting": "kafka_port",
        "value": 9092,
        "source": "default",
        "doc": rows["kafka_port"]["doc"],
    }
    assert "warning: unknown variable TOWPATH_LINGERING is ignored" in printed.err
    assert run(["config", "show"]) == 0
    assert "routing_enforce_owner" in capsys.readouterr().out


def test_a_taken_port_and_a_directory_that_cannot_be(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert run(["up", "--kafka-port", str(port)]) == 1
        expected = f"port {port} on 127.0.0.1 is in use; choose another one with --kafka-port"
        assert capsys.readouterr().err == f"towpath: {expected}\n"
    (tmp_path / "file").write_text("")
    assert run(["up", "--data-dir", str(tmp_path / "file")]) == 1
    assert "cannot write to the data directory" in capsys.readouterr().err


def test_the_real_process_shows_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "towpath", "up", "--set", "nonsense=1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("towpath: unknown setting 'nonsense'")
    assert done.stderr.count("\n") == 1


def test_start_up_loads_nothing_heavy() -> None:
    script = (
        "import sys, towpath.cli.main; towpath.cli.main.run(['--version']);"
        "heavy = {'confluent_kafka', 'pydantic', 'yaml', 'numba', 'uvicorn', 'kio', 'structlog'};"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
