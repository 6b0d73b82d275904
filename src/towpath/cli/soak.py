"""`towpath soak`: brokers under load and kills, with every record accounted for."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.errors import FAILED, UsageError
from towpath.cli.output import Output, OutputFlag

if TYPE_CHECKING:
    from towpath.soak.runner import Progress

HELP = """Produce and consume while brokers are killed, and account for every record at the end.

\b
The brokers are started for this, on ports of their own. Exit code 1 if an acknowledged record is
missing, changed or there twice, or if memory or open files do not return. Examples:
  towpath soak --minutes 1
  towpath soak --minutes 60 --records-per-second 20000 --brokers 2 --kill-every-seconds 10
"""

SECONDS_PER_MINUTE = 60


def soak(
    minutes: Annotated[float, typer.Option(min=0.05, help="How long the load lasts.")],
    records_per_second: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Of all producers together.")
    ] = 20_000,
    brokers: Annotated[int, typer.Option(min=1, max=16, help="Broker processes.")] = 2,
    kill_every_seconds: Annotated[
        float, typer.Option(min=0, help="Time between two SIGKILLs; 0 for none.")
    ] = 10.0,
    partitions: Annotated[int, typer.Option(min=1, max=1000, help="Of the one topic.")] = 8,
    producers: Annotated[int, typer.Option(min=1, max=32, help="Producer processes.")] = 2,
    record_bytes: Annotated[int, typer.Option(min=32, max=900_000, help="Size of a value.")] = 100,
    seed: Annotated[int, typer.Option(help="Of record bytes and of the choice whom to kill.")] = 1,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="A new directory, which is kept.  [default: temporary, kept on failure]",
        ),
    ] = None,
    output: OutputFlag = Output.TABLE,
) -> int:
    """Run a soak; progress goes to stderr, the summary to stdout."""
    from towpath.soak.plan import Plan
    from towpath.soak.runner import Soak

    plan = Plan(
        minutes * SECONDS_PER_MINUTE,
        records_per_second,
        brokers,
        kill_every_seconds,
        partitions,
        producers,
        record_bytes,
        seed,
    )
    directory = _new_directory(data_dir)
    report = Soak(plan, directory, _show).run()
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if output is Output.JSON:
        print(json.dumps(report.to_dict()))
    else:
        print("\n".join(report.lines()))
    if report.is_good and data_dir is None:
        shutil.rmtree(directory)
    return 0 if report.is_good else FAILED


def _new_directory(wanted: Path | None) -> Path:
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="towpath-soak-"))
    if wanted.exists() and any(wanted.iterdir()):
        raise UsageError(f"--data-dir wants a new or empty directory, {wanted} has files")
    wanted.mkdir(parents=True, exist_ok=True)
    return wanted.resolve()


def _show(progress: Progress) -> None:
    """One line for each look; on a terminal the line is written over."""
    line = (
        f"{progress.phase} {progress.elapsed_s:.0f} s  {progress.records_per_second:,.0f}/s  "
        f"acknowledged {progress.acknowledged:,}  lag {progress.lag:,}  kills {progress.kills}  "
        f"errors {progress.errors}"
    )
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
    else:
        print(line, file=sys.stderr, flush=True)
