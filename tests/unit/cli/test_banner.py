"""The banner's lines, and the sizes that people read."""

from __future__ import annotations

from pathlib import Path

import pytest

from towpath.cli.banner import Ready, banner_lines, ready, show
from towpath.cli.describe_topics import human_size
from towpath.cli.settings import load

KAFKA, HTTP = ("127.0.0.1", 9092), ("127.0.0.1", 9464)


def test_lines_to_copy_use_the_command_and_the_address() -> None:
    ready = Ready((("127.0.0.1", 9192), ("127.0.0.1", 9193)), ("127.0.0.1", 9464), Path("/d"))
    lines = dict(banner_lines(ready, "./towpath"))
    assert lines["kafka"] == "127.0.0.1:9192,127.0.0.1:9193"
    assert lines["http"].startswith("http://127.0.0.1:9464/metrics")
    assert lines["data"] == "/d"
    assert lines["write"] == (
        "echo 'hello' | ./towpath produce greetings --bootstrap 127.0.0.1:9192"
    )
    assert lines["read"] == (
        "./towpath consume greetings --from earliest --count 1 --bootstrap 127.0.0.1:9192"
    )


def test_the_default_port_needs_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    show(Ready((("127.0.0.1", 9092),), ("::1", 9464), Path("/d")))
    printed = capsys.readouterr().out
    assert "--bootstrap" not in printed
    assert "http://[::1]:9464/metrics" in printed
    assert "\x1b[" not in printed


@pytest.mark.parametrize(
    ("file", "flags", "finding"),
    [
        ("", {}, ""),
        ("", {"data_dir": "/my data"}, " --data-dir '/my data'"),
        ("data_dir: /elsewhere", {}, " --config {file}"),
        ("data_dir: /elsewhere", {"data_dir": "/d"}, " --config {file} --data-dir /d"),
        ("", {"objects_url": "s3://bucket/x"}, " --set objects_url=s3://bucket/x"),
    ],
)
def test_the_first_query_finds_the_system(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    flags: dict[str, object],
    finding: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "towpath.yaml"
    config.write_text(file)
    given = config if file else None
    settings = load(given, [], flags)
    for tables in (True, False):
        lines = dict(banner_lines(ready(settings, given, (KAFKA,), HTTP, tables=tables), "towpath"))
        end = finding.format(file=config)
        query = """'SELECT "offset", decode(value) AS value FROM greetings'"""
        assert lines["query"] == f"towpath sql {query}{end}"
        assert lines.get("table") == (f"towpath tables describe greetings{end}" if tables else None)


def test_what_nobody_else_can_see_has_no_query(tmp_path: Path) -> None:
    for name in ("metadata_url", "objects_url"):
        settings = load(None, [], {"data_dir": tmp_path, name: "memory://"})
        made = ready(settings, None, (KAFKA,), HTTP, tables=False)
        assert "query" not in dict(banner_lines(made, "towpath"))


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_572_864, "1.5 MiB"),
        (2**60, "1024.0 PiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert human_size(size) == text
