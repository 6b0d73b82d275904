"""`towpath compactor`: turns topics into Iceberg tables, as a service or for one round."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.errors import FAILED, CliError
from towpath.cli.output import Output, OutputFlag
from towpath.cli.settings import ConfigFile, SetFlags, load

if TYPE_CHECKING:
    from towpath.compactor import Compactor
    from towpath.config import Settings
    from towpath.lakehouse.rounds import RoundSummary

HELP = """Turn topics into Iceberg tables; `towpath up` runs one by itself.

\b
Several compactors share the work. --once compacts what is there now, in one round, and prints
what it did. Examples:
  towpath compactor --config /etc/towpath.yaml
  towpath compactor --data-dir ./towpath-data --once
  towpath compactor --config towpath.yaml --set spark.master=spark://master:7077
"""


def compactor(
    config: ConfigFile = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of all data.  [default: ./towpath-data]"),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Run one round, then end.")] = False,
    output: OutputFlag = Output.TABLE,
    assignments: SetFlags = None,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> int:
    """Run until a signal, or for one round."""
    import asyncio

    from towpath.compactor import CannotCompact, check
    from towpath.observe import logging

    settings = load(config, assignments or [], {"data_dir": data_dir}, warn=not supervised)
    # One round shows bars and a table; lines of the log between them are for what goes wrong.
    level = "warning" if once and settings.log_level == "info" else settings.log_level
    logging.configure(level, settings.log_format)
    try:
        check(settings)
    except CannotCompact as error:
        raise CliError(str(error)) from error
    if once:
        return asyncio.run(_once(settings, output))
    return asyncio.run(_serve(settings, supervised=supervised))


async def _once(settings: Settings, output: Output) -> int:
    """One round; 1 if a part of it failed."""
    from towpath.cli.compaction_progress import RoundProgress
    from towpath.cli.compaction_report import show_summary

    progress = RoundProgress()
    compactor = await _start(settings, progress=progress, everything_is_due=True)
    try:
        with progress:
            summary = await _round(compactor)
    finally:
        await compactor.stop()
    show_summary(summary, progress.elapsed_seconds, output)
    return FAILED if summary.failures else 0


async def _round(compactor: Compactor) -> RoundSummary:
    from towpath.cluster.features import OlderBrokers
    from towpath.lakehouse.runners.runner import RunnerUnavailable
    from towpath.lakehouse.tables import TableError
    from towpath.metadata.store import MetadataError

    try:
        return await compactor.run_once()
    except (OlderBrokers, RunnerUnavailable, TableError, MetadataError) as error:
        raise CliError(f"cannot compact: {error}") from error


async def _serve(settings: Settings, *, supervised: bool) -> int:
    from towpath.cli.compaction_progress import LoggedProgress
    from towpath.cli.compaction_report import log_round
    from towpath.cli.serve import StopRequest
    from towpath.compactor import run_until_stopped

    stop = StopRequest()
    stop.install()
    if supervised:
        stop.watch_supervisor()
    compactor = await _start(settings, observer=log_round, progress=LoggedProgress())
    if supervised:
        print('{"ready": true}', flush=True)
    try:
        await run_until_stopped(compactor, stop.asked)
    finally:
        await compactor.stop()
    return 0


async def _start(
    settings: Settings, *, everything_is_due: bool = False, **hooks: object
) -> Compactor:
    """The compactor with its stores open; what a user can put right becomes one line."""
    from towpath.compactor import Compactor
    from towpath.errors import TowpathError
    from towpath.metadata.store import MetadataError
    from towpath.objects.store import ObjectStoreError

    compactor = Compactor(settings, **hooks)  # type: ignore[arg-type]
    try:
        await compactor.start(everything_is_due=everything_is_due)
    except (OSError, TowpathError, MetadataError, ObjectStoreError) as error:
        raise CliError(f"cannot start: {error}") from error
    return compactor
