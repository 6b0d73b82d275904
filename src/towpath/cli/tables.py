"""`towpath tables`: list, describe, snapshots and files, read from the stores themselves.

Nothing is started and nothing is changed: the system may be running or not.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.errors import CliError
from towpath.cli.output import Output, OutputFlag
from towpath.cli.settings import ConfigFile, SetFlags, load

if TYPE_CHECKING:
    from towpath.cli.stored_topics import StoredTopic
    from towpath.cli.table_catalog import TableCatalog
    from towpath.cli.table_document import TableDocument
    from towpath.config import Settings

app = typer.Typer(
    help="""Look at the topics' Iceberg tables, whether Towpath is running or not.

\b
Examples:
  towpath tables list
  towpath tables describe orders --data-dir /var/lib/towpath
  towpath tables snapshots orders --config towpath.yaml
  towpath tables files orders --output json
""",
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="TABLE", help="The table: its topic's name.")]
DataDir = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Directory of all data.  [default: ./towpath-data]"),
]


@app.callback(invoke_without_command=True)
def _tables(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_tables(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    assignments: SetFlags = None,
    output: OutputFlag = Output.TABLE,
) -> None:
    """List the tables: size, records still missing, last commit."""
    from towpath.cli.show_tables import show_tables
    from towpath.cli.table_reports import report_table

    settings = load(config, assignments or [], {"data_dir": data_dir})
    catalog = _open(settings)
    documents = [catalog.document(name) for name in catalog.names()]
    topics = _topics_of(settings, documents)
    reports = [report_table(document, topics.get(document.identifier)) for document in documents]
    if output is Output.JSON:
        print(json.dumps([asdict(report) for report in reports], indent=2))
    else:
        show_tables(reports)


@app.command("describe")
def describe_table(
    name: Name,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    assignments: SetFlags = None,
    output: OutputFlag = Output.TABLE,
) -> None:
    """Show a table: columns, properties, each partition, and lines to copy that read it."""
    from towpath.cli.describe_table import describe
    from towpath.cli.show_tables import show_description

    settings = load(config, assignments or [], {"data_dir": data_dir})
    catalog = _open(settings)
    document = _find(settings, catalog, name)
    topic = _topics_of(settings, [document]).get(document.identifier)
    found = describe(settings, catalog, document, topic)
    if output is Output.JSON:
        print(json.dumps(found.as_json(), indent=2))
    else:
        show_description(found)


@app.command("snapshots")
def list_snapshots(
    name: Name,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    assignments: SetFlags = None,
    output: OutputFlag = Output.TABLE,
) -> None:
    """List a table's snapshots: what each commit did, and how far each partition had come."""
    from towpath.cli.show_tables import show_snapshots
    from towpath.cli.table_reports import report_snapshots

    settings = load(config, assignments or [], {"data_dir": data_dir})
    reports = report_snapshots(_find(settings, _open(settings), name))
    if output is Output.JSON:
        print(json.dumps([asdict(report) for report in reports], indent=2))
    else:
        show_snapshots(reports)


@app.command("files")
def list_files(
    name: Name,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    assignments: SetFlags = None,
    output: OutputFlag = Output.TABLE,
) -> None:
    """List a table's data files: rows, size, offsets and times of their records."""
    from towpath.cli.show_tables import show_files
    from towpath.cli.table_files import report_files

    settings = load(config, assignments or [], {"data_dir": data_dir})
    catalog = _open(settings)
    reports = report_files(catalog.open(_find(settings, catalog, name)))
    if output is Output.JSON:
        print(json.dumps([asdict(report) for report in reports], indent=2))
    else:
        show_files(reports)


def _open(settings: Settings) -> TableCatalog:
    """The catalog; one line if there cannot be any table."""
    from towpath.cli.table_catalog import open_for_reading
    from towpath.lakehouse.possible import why_no_tables

    reason = why_no_tables(settings)
    if reason is not None:
        raise CliError(reason)
    store = _metadata_path(settings)
    if not store.exists():
        raise CliError(f"no Towpath data here: {store} does not exist")
    return open_for_reading(settings)


def _find(settings: Settings, catalog: TableCatalog, name: str) -> TableDocument:
    """The table of this name, which may have its namespace before it, or of this topic."""
    names = catalog.names()
    short = name.removeprefix(f"{settings.iceberg_namespace}.")
    for candidate in (name, short):
        if candidate in names:
            return catalog.document(candidate)
    # Some catalogs do not take every topic's name.
    for document in map(catalog.document, names):
        if document.topic == name:
            return document
    raise CliError(_why_missing(settings, short, names))


def _why_missing(settings: Settings, name: str, names: list[str]) -> str:
    from towpath.cli.stored_topics import read_topics

    if name in read_topics(_metadata_path(settings), [name]):
        return f"topic {name} has no table yet: none of its records was compacted so far"
    close = difflib.get_close_matches(name, names, n=1)
    hint = f", did you mean '{close[0]}'?" if close else ""
    return f"there is no table '{name}'{hint}"


def _topics_of(settings: Settings, documents: list[TableDocument]) -> dict[str, StoredTopic]:
    """Each table's topic, by the table's identifier, as far as it exists."""
    from towpath.cli.stored_topics import read_topics

    names = [document.topic for document in documents if document.topic is not None]
    known = read_topics(_metadata_path(settings), names)
    found = {document.identifier: known.get(document.topic or "") for document in documents}
    return {
        document.identifier: topic
        for document in documents
        # A topic that was created again under the same name is another one.
        if (topic := found[document.identifier]) and topic.topic_id == document.topic_id
    }


def _metadata_path(settings: Settings) -> Path:
    path = settings.metadata_path()
    assert path is not None, "checked by `why_no_tables`"
    return path
