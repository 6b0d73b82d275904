"""`towpath bench`: this broker, its data pipeline, its readers, or its consumer groups, beside what
others use; from a checkout."""

from __future__ import annotations

import signal
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.errors import CliError

HELP = """Measure this broker, Apache Kafka and the machine's limits in one run.

\b
SUITE is `broker`; `compact`: the pipeline that turns topics into tables, beside Spark's Kafka
source and Iceberg's writer; `read`: topics in Spark and in SQL, beside Spark's Kafka source and
sink and DuckDB on bare files; or `groups`: consumer groups of both protocols, beside Apache Kafka.
A C client on librdkafka does the measuring; as root it is prepared by itself. Leave the machine
alone meanwhile. --quick takes a few minutes and gives a first look, no more. Examples:
  towpath bench
  towpath bench --quick
  towpath bench --only latency-1000,unbatched --runs 5
  towpath bench --list
  towpath bench compact --only lag,commit
  towpath bench read --only read-tail,sql
  towpath bench groups --only commits,death
"""


class Suite(Enum):
    """What can be measured."""

    BROKER = "broker"
    COMPACT = "compact"
    READ = "read"
    GROUPS = "groups"


def bench(
    suite: Annotated[
        Suite | None,
        typer.Argument(metavar="[SUITE]", help="broker (the default), compact, read or groups."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="One short run: two minutes, the other suites under five."),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ROWS", help="Rows by id or pattern, separated by commas."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Runs to take medians of.  [default: 3, quick: 1]"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the results go.  [default: bench/results; quick or --only: "
            ".cache/bench/results]",
        ),
    ] = None,
    list_rows: Annotated[bool, typer.Option("--list", help="Show the rows and end.")] = False,
) -> int:
    """Run the benchmark of the checkout; its exit code."""
    root = checkout()
    command = [sys.executable, "-m", "bench"]
    command += [suite.value] if suite is not None else []
    command += ["--quick"] * quick + ["--list"] * list_rows
    for names in only or []:
        command += ["--only", names]
    if runs is not None:
        command += ["--runs", str(runs)]
    if output is not None:
        command += ["--output", str(output.absolute())]
    process = subprocess.Popen(command, cwd=root)
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        return _wait(process)
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Its exit code, however often Ctrl-C is pressed: it stops its brokers first."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # The terminal has told the benchmark too.
            continue


def checkout() -> Path:
    """The root of the checkout this package runs from; CliError when it is installed."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "bench" / "__main__.py").is_file() or not (root / "tests").is_dir():
        raise CliError("bench works in a checkout only, run ./towpath bench there", 2)
    return root
