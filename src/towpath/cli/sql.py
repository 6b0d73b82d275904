"""`towpath sql`: queries over topics, the table and the live tail as one."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.errors import CliError
from towpath.cli.settings import ConfigFile, SetFlags, load
from towpath.cli.sql_output import SqlOutput, show

if TYPE_CHECKING:
    from towpath.query.engine import TopicQueries

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
    with _no_collection():
        settings = load(config, assignments or [], {"data_dir": data_dir})
        from towpath.errors import TowpathError
        from towpath.metadata.store import MetadataError
        from towpath.objects.store import ObjectStoreError
        from towpath.query.engine import TopicQueries

    try:
        queries = TopicQueries(settings)
        try:
            return _run(queries, query, output)
        finally:
            queries.close()
    except (TowpathError, MetadataError, ObjectStoreError, OSError) as error:
        raise CliError(str(error)) from error


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """What is loaded at the start is no garbage; looking for some took a twentieth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _run(queries: TopicQueries, query: str | None, output: SqlOutput) -> int:
    def carry_out(text: str) -> int:
        answer = queries.run(text)
        return 0 if answer is None else show(answer, output)

    if query is None and sys.stdin.isatty():
        from towpath.cli.sql_prompt import prompt

        return prompt(queries, carry_out)
    carry_out(sys.stdin.read() if query is None else query)
    return 0
