"""`towpath topics`: create, list, describe, alter and delete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.client import (
    DEFAULT_BOOTSTRAP,
    METADATA_TIMEOUT_SECONDS,
    REQUEST_TIMEOUT_SECONDS,
    BootstrapFlag,
    admin,
    admin_types,
    explained,
    result,
)
from towpath.cli.errors import CliError, UsageError
from towpath.cli.output import Output, OutputFlag, table
from towpath.cli.settings import split_assignments
from towpath.typed.declaration import SCHEMA

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

BROKER_DEFAULT = -1
"""Kafka's number for: as the broker is set."""

app = typer.Typer(
    help="""Create, look at, change and delete topics.

\b
Examples:
  towpath topics create orders --partitions 6 --config retention.ms=3600000
  towpath topics list --output json
  towpath topics describe orders
  towpath topics alter orders --config max.message.bytes=2097152 --partitions 12
  towpath topics alter orders --config towpath.value.format=json
  towpath topics delete orders --yes
""",
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _topics(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


Name = Annotated[str, typer.Argument(metavar="NAME", help="The topic.")]
ConfigFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="NAME=VALUE",
        help=f"A topic setting; repeatable. {SCHEMA}=@FILE takes the schema from a file.",
    ),
]


def assigned(flags: list[str] | None) -> list[tuple[str, str]]:
    """The settings that `--config` flags give. A schema is mostly in a file."""
    return [
        (name, _content(value[1:]) if name == SCHEMA and value.startswith("@") else value)
        for name, value in split_assignments(flags or [], "--config")
    ]


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"cannot read the schema in {path}: {error}") from error


def describe_all(client: AdminClient, names: list[str]) -> dict[str, Any]:
    """The topics' descriptions by name; CliError if one does not exist."""
    from confluent_kafka import TopicCollection

    if not names:
        return {}
    futures = client.describe_topics(
        TopicCollection(names), request_timeout=REQUEST_TIMEOUT_SECONDS
    )
    return {name: result(future, f"topic {name}") for name, future in futures.items()}


def all_names(client: AdminClient) -> list[str]:
    """Every topic, by name."""
    with explained("cannot list topics"):
        return sorted(client.list_topics(timeout=METADATA_TIMEOUT_SECONDS).topics)


@app.command("create")
def create(
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help="Number of partitions; without it the broker's default."),
    ] = None,
    config: ConfigFlag = None,
    bootstrap: BootstrapFlag = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a topic."""
    settings = dict(assigned(config))
    client = admin(bootstrap)
    with explained(f"cannot create topic {name}"):
        new = admin_types().NewTopic(
            name,
            num_partitions=partitions or BROKER_DEFAULT,
            replication_factor=BROKER_DEFAULT,
            config=settings,
        )
        futures = client.create_topics([new], request_timeout=REQUEST_TIMEOUT_SECONDS)
    result(futures[name], f"cannot create topic {name}")
    print(f"created topic {name}")


@app.command("list")
def list_topics(
    bootstrap: BootstrapFlag = DEFAULT_BOOTSTRAP, output: OutputFlag = Output.TABLE
) -> None:
    """List the topics: name, partitions, whether internal."""
    client = admin(bootstrap)
    described = describe_all(client, all_names(client))
    rows = [
        {"name": name, "partitions": len(topic.partitions), "internal": bool(topic.is_internal)}
        for name, topic in sorted(described.items())
    ]
    if output is Output.JSON:
        print(json.dumps(rows, indent=2))
    else:
        cells = [
            [str(row["name"]), str(row["partitions"]), "yes" if row["internal"] else "no"]
            for row in rows
        ]
        table(("name", "partitions", "internal"), cells)


@app.command("describe")
def describe(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Topics; without: all.")
    ] = None,
    bootstrap: BootstrapFlag = DEFAULT_BOOTSTRAP,
    output: OutputFlag = Output.TABLE,
) -> None:
    """Show topics: id, settings that are not the default, and each partition."""
    from towpath.cli import describe_topics

    client = admin(bootstrap)
    described = describe_all(client, list(dict.fromkeys(names or all_names(client))))
    reports = describe_topics.report(client, bootstrap, described)
    if output is Output.JSON:
        print(json.dumps([report.as_json() for report in reports], indent=2))
    else:
        describe_topics.show(reports)


@app.command("alter")
def alter(
    name: Name,
    config: ConfigFlag = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Put a setting back to its default; repeatable."),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Raise the number of partitions to this.")
    ] = None,
    bootstrap: BootstrapFlag = DEFAULT_BOOTSTRAP,
) -> None:
    """Change a topic's settings or raise its number of partitions."""
    changes = assigned(config)
    if not changes and not delete_config and partitions is None:
        raise UsageError("nothing to change: give --config, --delete-config or --partitions")
    client = admin(bootstrap)
    if changes or delete_config:
        _alter_configs(client, name, changes, delete_config or [])
    if partitions is not None:
        _add_partitions(client, name, partitions)
    print(f"altered topic {name}")


def _alter_configs(
    client: AdminClient, name: str, changes: list[tuple[str, str]], removed: list[str]
) -> None:
    types = admin_types()
    operation = types.AlterConfigOpType
    entries = [
        types.ConfigEntry(key, value, incremental_operation=operation.SET) for key, value in changes
    ]
    entries += [
        types.ConfigEntry(key, None, incremental_operation=operation.DELETE) for key in removed
    ]
    resource = types.ConfigResource(types.ResourceType.TOPIC, name, incremental_configs=entries)
    with explained(f"cannot alter topic {name}"):
        futures = client.incremental_alter_configs(
            [resource], request_timeout=REQUEST_TIMEOUT_SECONDS
        )
    for future in futures.values():
        result(future, f"cannot alter topic {name}")


def _add_partitions(client: AdminClient, name: str, total: int) -> None:
    with explained(f"cannot alter topic {name}"):
        futures = client.create_partitions(
            [admin_types().NewPartitions(name, total)], request_timeout=REQUEST_TIMEOUT_SECONDS
        )
    result(futures[name], f"cannot alter topic {name}")


@app.command("delete")
def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The topics.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: BootstrapFlag = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete topics and all their records."""
    names = list(dict.fromkeys(names))
    client = admin(bootstrap)
    if not yes:
        typer.confirm(f"Delete {', '.join(names)} and all records?", abort=True)
    with explained("cannot delete topics"):
        futures = client.delete_topics(names, request_timeout=REQUEST_TIMEOUT_SECONDS)
    failures = []
    for name, future in futures.items():
        try:
            result(future, f"cannot delete topic {name}")
        except CliError as error:
            failures.append(str(error))
        else:
            print(f"deleted topic {name}")
    if failures:
        raise CliError("; ".join(failures))
