"""What `towpath sql` does once it is known where the topics lie, and in which form to answer."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from towpath.cli.errors import CliError
from towpath.cli.sql_output import SqlOutput, show

if TYPE_CHECKING:
    from towpath.query.engine import TopicQueries
    from towpath.query.places import Places

INTERRUPTED = "Query interrupted"


def run_sql(places: Places, query: str | None, output: SqlOutput) -> int:
    """Run a query, that of standard input, or a prompt. Raises CliError."""
    with no_collection():
        from towpath.errors import TowpathError
        from towpath.metadata.store import MetadataError
        from towpath.objects.store import ObjectStoreError
        from towpath.query.engine import TopicQueries

    try:
        queries = TopicQueries(places)
        try:
            return _run(queries, query, output)
        finally:
            queries.close()
    except (TowpathError, MetadataError, ObjectStoreError, OSError) as error:
        raise CliError(str(error)) from error


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """What is loaded at the start is no garbage; looking for some took a twentieth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def _interrupts() -> Iterator[None]:
    """DuckDB tells of Ctrl-C with an error that could be anything else."""
    try:
        yield
    except RuntimeError as error:
        if str(error) == INTERRUPTED:
            raise KeyboardInterrupt from None
        raise


def _run(queries: TopicQueries, query: str | None, output: SqlOutput) -> int:
    def carry_out(text: str) -> int:
        with _interrupts():
            answer = queries.rows(text)
            return 0 if answer is None else show(answer, output)

    if query is None and sys.stdin.isatty():
        from towpath.cli.sql_prompt import prompt

        return prompt(queries, carry_out)
    carry_out(sys.stdin.read() if query is None else query)
    return 0
