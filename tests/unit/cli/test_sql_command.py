"""`towpath sql`: forms of an answer, input, prompt."""

from __future__ import annotations

import io
import json
import shutil
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from tests.unit.query.test_topic_queries import write

from towpath.cli.main import run
from towpath.cli.sql_output import text
from towpath.config.settings import Settings


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "data"
    write(Settings(data_dir=path), ("orders", b"a"), ("orders", b"\xff\x00"), ("orders", b'"q",'))
    return path


def sql(data_dir: Path, *arguments: str) -> int:
    return run(["sql", *arguments, "--data-dir", str(data_dir)])


def test_a_table(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sql(data_dir, 'SELECT "offset", value, key FROM orders') == 0
    assert capsys.readouterr().out == (
        'offset  value   key\n0       a       NULL\n1       0xff00  NULL\n2       "q",    NULL\n'
    )


def test_csv(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sql(data_dir, "SELECT value, key FROM orders", "--output", "csv") == 0
    assert capsys.readouterr().out == 'value,key\na,\n0xff00,\n"""q"",",\n'


def test_json(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sql(data_dir, "SELECT value, headers FROM orders", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {"value": "a", "headers": []},
        {"value": {"base64": "/wA="}, "headers": []},
        {"value": '"q",', "headers": []},
    ]
    assert sql(data_dir, "SELECT 1 AS a WHERE false", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_query_from_standard_input(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT count(*) AS n\nFROM orders;\n"))
    assert sql(data_dir) == 0
    assert capsys.readouterr().out == "n\n3\n"


def test_a_failure_is_one_line(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sql(data_dir, "SELECT * FROM order_s") == 1
    assert capsys.readouterr().err == (
        "towpath: there is no topic 'order_s'; did you mean 'orders'?\n"
    )


def test_no_objects_are_one_line(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(data_dir / "objects")
    assert sql(data_dir, "SELECT * FROM orders") == 1
    assert "towpath: cannot open the object store" in capsys.readouterr().err


def test_the_prompt(
    data_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    typed = iter(["", ".topics", "SELECT count(*) AS n", "FROM orders;", "nonsense;", ".help"])

    def read(prompt: str) -> str:
        print(prompt, end="")
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", read)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert sql(data_dir) == 0
    shown = capsys.readouterr()
    assert "towpath> orders\n" in shown.out
    assert "towpath>     ...> n\n3\n1 row, " in shown.out
    assert "Topics are tables" in shown.out
    assert "Parser Error" in shown.err
    assert (tmp_path / "state" / "towpath" / "sql_history").exists()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "NULL"),
        ("text", "text"),
        (b"bytes", "bytes"),
        (b"\xfe", "0xfe"),
        (1.5, "1.5"),
        (float("nan"), "nan"),
        (True, "true"),
        (Decimal("1.20"), "1.20"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC), "2026-01-02T03:04:05.678Z"),
        (timedelta(hours=1), "1:00:00"),
        ([{"key": "a", "value": b"\x00\xff"}], '[{"key": "a", "value": "0x00ff"}]'),
    ],
)
def test_values_for_people(value: object, shown: str) -> None:
    assert text(value) == shown
