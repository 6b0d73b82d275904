"""`towpath sql` that loads little: the same as the command proper, and really little."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.unit.query.helpers_typed import TypedLake

from towpath.cli import commands, main, quick_sql, sql_run
from towpath.config.settings import Settings

COUNT = "SELECT count(*) AS n FROM orders"
HEAVY = (
    "typer", "click", "pydantic", "yaml", "rich", "pyarrow", "numpy", "pandas", "numba", "fsspec",
    "opendal", "crc32c", "lz4", "zstandard", "cramjam", "fastavro", "asyncio", "concurrent.futures",
    "towpath.config", "towpath.typed.declaration", "towpath.lakehouse.plan", "towpath.reading.rows",
)  # fmt: skip
"""What a query over files has no use for, and what would take longer to load than it takes."""
DECODING = frozenset({"crc32c", "lz4", "zstandard", "cramjam"})
"""What a few fresh records need of it."""


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TOWPATH_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TOWPATH_COMMAND", "towpath")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a data directory: a topic in files, one with a tail, one without records."""
    root = tmp_path_factory.mktemp("quick")
    lake = TypedLake(Settings(data_dir=root / "towpath-data"))
    lake.append("orders", b"a", b"\xff\x00", b'"q",', None)
    lake.compact()
    lake.append("fresh", b"b")
    lake.declare("empty", None)
    (root / "nothing").mkdir()
    return root


@pytest.fixture
def root(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


QUICK: list[list[str]] = [
    [COUNT],
    ['SELECT * FROM orders ORDER BY "offset"'],
    ['SELECT * FROM orders ORDER BY "offset"', "--output", "csv"],
    ["--output=json", 'SELECT * FROM orders ORDER BY "offset"'],
    ["--data-dir", "towpath-data", COUNT, "--output", "table"],
    ["--data-dir=./towpath-data", COUNT],
    [COUNT, "--data-dir", "nothing/../towpath-data", "--output=csv"],
    ["SELECT decode(value) AS value FROM fresh", "--output", "json"],
    ["SELECT * FROM empty"],
    ["SELECT INTERVAL 1 DAY AS i, MAP{'a': 1} AS m"],
    ["CREATE TABLE mine AS SELECT * FROM orders; SELECT count(*) FROM mine"],
    [""],
    ["SELECT * FROM order_s"],
    ["SELECT * FROM nothing_like_it"],
    ["SELECT nope FROM orders"],
    ["SELEC 1"],
    ["SELECT CAST('x' AS INTEGER)"],
    [COUNT, "--data-dir", "none"],
    [COUNT, "--data-dir", "nothing"],
    [COUNT, "--data-dir", "~/none"],
]
"""Command lines that need nothing but a query, right and wrong ones."""
OTHERS: list[list[str]] = [
    [COUNT, "--set", "data_dir=towpath-data"],
    [COUNT, "--config", "none.yaml"],
    [COUNT, "--output", "xml"],
    [COUNT, "--output"],
    [COUNT, "--output", "--data-dir"],
    [COUNT, "--output", "csv", "--output", "json"],
    [COUNT, "--data-dir", ""],
    [COUNT, "--data-dir="],
    [COUNT, "--data-dri", "towpath-data"],
    [COUNT, "more"],
    ["--", COUNT],
    ["-- a comment"],
    ["--help"],
    [COUNT, "-h"],
]
"""Command lines that are left to the command proper."""


def outcome(
    run: Callable[[Sequence[str]], int],
    arguments: Sequence[str],
    capsys: pytest.CaptureFixture[str],
) -> tuple[int, str, str]:
    code = run(["sql", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.mark.parametrize("arguments", QUICK + OTHERS, ids=" ".join)
def test_either_way_is_the_same(
    root: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    quick = outcome(main.run, arguments, capsys)
    proper = outcome(commands.run, arguments, capsys)
    assert quick == proper
    assert quick[1] or quick[2] or arguments == [""]


@pytest.mark.parametrize("arguments", OTHERS, ids=" ".join)
def test_what_is_not_plain_is_left_alone(
    root: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert quick_sql.run(["sql", *arguments]) is None
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("arguments", QUICK, ids=" ".join)
def test_what_is_plain_is_not(root: Path, arguments: list[str]) -> None:
    assert quick_sql.run(["sql", *arguments]) is not None


def test_other_commands_are_left_alone(root: Path) -> None:
    assert quick_sql.run([]) is None
    assert quick_sql.run(["--version"]) is None
    assert quick_sql.run(["topics", "list"]) is None


@pytest.mark.parametrize(
    ("name", "value", "is_quick"),
    [
        ("TOWPATH_DATA_DIR", "elsewhere", False),
        ("TOWPATH_CONFIG", "none.yaml", False),
        ("TOWPATH_CONFIG", "", True),
        ("TOWPATH_MISSPELT", "1", False),
        ("TOWPATH_BOOTSTRAP", "127.0.0.1:9092", True),
        ("TOWPATH_PYTHON", "python3", True),
    ],
)
def test_settings_of_the_environment(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: str,
    is_quick: bool,
) -> None:
    monkeypatch.setenv(name, value)
    assert (quick_sql.run(["sql", COUNT]) is not None) == is_quick
    capsys.readouterr()
    assert outcome(main.run, [COUNT], capsys) == outcome(commands.run, [COUNT], capsys)


def test_a_query_from_standard_input(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(COUNT))
    assert quick_sql.run(["sql"]) == 0
    assert capsys.readouterr().out == "n\n4\n"


def test_an_interrupted_query(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> int:
        raise RuntimeError(sql_run.INTERRUPTED)

    monkeypatch.setattr(sql_run, "show", interrupted)
    assert outcome(main.run, [COUNT], capsys) == (130, "", "")
    assert outcome(commands.run, [COUNT], capsys) == (130, "", "")


@pytest.mark.parametrize(
    ("topic", "count", "needed"),
    [("orders", 4, frozenset()), ("fresh", 1, DECODING), ("empty", 0, frozenset())],
)
def test_a_query_loads_little(root: Path, topic: str, count: int, needed: frozenset[str]) -> None:
    query = f"SELECT count(*) AS n FROM {topic}"
    script = (
        "import sys\n"
        "from towpath.cli.main import run\n"
        f"code = run(['sql', {query!r}, '--output', 'json'])\n"
        f"print(*(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f'[\n {{"n": {count}}}\n]\n')
    assert set(done.stderr.split()) <= needed


@pytest.mark.parametrize(
    ("query", "code", "out", "err"),
    [
        (COUNT, 0, "n\n4\n", ""),
        ("SELECT * FROM order_s", 1, "", "towpath: there is no topic 'order_s'; did you mean"),
    ],
)
def test_the_process_ends_as_others_do(
    root: Path, query: str, code: int, out: str, err: str
) -> None:
    command = [sys.executable, "-m", "towpath", "sql", query]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, out)
    assert done.stderr.startswith(err)
    assert done.stderr.count("\n") == bool(err)


def test_an_answer_that_cannot_be_written_is_a_failure(root: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "towpath", "sql", COUNT], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode != 0
    assert b"No space left on device" in done.stderr
