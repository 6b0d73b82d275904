"""`towpath sql`: queries over topics, the table and the live tail as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.settings import ConfigFile, SetFlags, load
from towpath.cli.sql_output import SqlOutput
from towpath.cli.sql_run import no_collection, run_sql

HELP = """Query topics with SQL, whether Towpath is running or not.

\b
A topic is a table: what is compacted and what was acknowledged a moment ago, each record once.
Without a query there is a prompt; a query may also come from standard input. Examples:
  towpath sql 'SELECT count(*) FROM orders'
  towpath sql 'SELECT "offset", decode(value) FROM orders WHERE partition = 0 LIMIT 5'
  towpath sql "SELECT max(timestamp) FROM orders" --output json --data-dir /var/lib/towpath
  towpath sql < report.sql
"""


def sql(
    query: Annotated[
        str | None, typer.Argument(metavar="[QUERY]", help="SQL, as DuckDB speaks it.")
    ] = None,
    config: ConfigFile = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of all data.  [default: ./towpath-data]"),
    ] = None,
    assignments: SetFlags = None,
    output: Annotated[
        SqlOutput, typer.Option("--output", help="Form of the answer.")
    ] = SqlOutput.TABLE,
) -> int:
    """Run a query, or a prompt."""
    with no_collection():
        settings = load(config, assignments or [], {"data_dir": data_dir})
    return run_sql(settings, query, output)
