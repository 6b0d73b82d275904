"""`towpath groups`: list, describe, reset and delete consumer groups."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.client import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_SECONDS,
    BootstrapFlag,
    admin,
    explained,
    result,
)
from towpath.cli.errors import CliError, UsageError, complain
from towpath.cli.output import Output, OutputFlag

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from towpath.cli.group_reports import GroupReport

app = typer.Typer(
    help="""Look at consumer groups, move their offsets and delete them.

\b
Examples:
  towpath groups list
  towpath groups describe billing
  towpath groups reset billing --to earliest --topic orders
  towpath groups reset billing --to 2026-01-31T12:00:00Z --execute
  towpath groups reset billing --shift-by -100 --topic orders:0,2 --execute
  towpath groups reset billing --from-file offsets.csv --execute
  towpath groups delete billing --yes
  towpath groups delete billing --topic orders --yes
""",
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _groups(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group.")]
TopicFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="NAME[:P,P...]",
        help="Only this topic, or these partitions of it; repeatable.",
    ),
]


def _report(
    client: AdminClient, names: Sequence[str], bootstrap: str | None = None
) -> list[GroupReport]:
    """The groups by name. With `bootstrap` the first unread records are looked at, too."""
    from towpath.cli import first_unread, group_admin, group_reports, offsets

    groups = group_admin.describe(client, names)
    committed = group_admin.committed(client, names)
    assigned = {
        key for group in groups.values() for each in group.members for key in each.partitions
    }
    every = assigned.union(*committed.values())
    ends = offsets.latest_known(client, sorted(every))
    reports = []
    for name in sorted(names):
        timestamps_ms = {}
        if bootstrap is not None:
            unread = group_reports.behind(committed[name], ends)
            timestamps_ms = first_unread.timestamps_ms(bootstrap, unread)
        lags = group_reports.partition_lags(groups[name], committed[name], ends, timestamps_ms)
        now_ms = int(time.time() * 1000)
        reports.append(group_reports.GroupReport(groups[name], lags, now_ms))
    return reports


@app.command("list")
def list_groups(
    bootstrap: BootstrapFlag = DEFAULT_BOOTSTRAP, output: OutputFlag = Output.TABLE
) -> None:
    """List the groups: type, state, members, and how many records they have yet to read."""
    from towpath.cli import group_admin, show_groups

    client = admin(bootstrap)
    reports = _report(client, group_admin.names(client))
    if output is Output.JSON:
        print(json.dumps([report.summary() for report in reports], indent=2))
    else:
        show_groups.show_list(reports)


@app.command("describe")
def describe(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[GROUP]...", help="Groups; without: all.")
    ] = None,
    bootstrap: BootstrapFlag = DEFAULT_BOOTSTRAP,
    output: OutputFlag = Output.TABLE,
) -> None:
    """Show groups: state, coordinator, members and their partitions, and the lag of each.

    The lag in time is the age of the first record that the group has not read.
    """
    from towpath.cli import group_admin, show_groups

    client = admin(bootstrap)
    wanted = list(dict.fromkeys(names or group_admin.names(client)))
    reports = _report(client, wanted, bootstrap)
    for report in reports:
        if names and report.group.state == group_admin.DEAD:
            raise CliError(f"there is no group {report.group.name}")
    if output is Output.JSON:
        print(json.dumps([report.as_json() for report in reports], indent=2))
    else:
        show_groups.show_groups(reports)


@app.command("reset")
def reset(
    name: Name,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="earliest, latest, OFFSET, -N from the end, @MILLISECONDS, or an ISO 8601 time.",
        ),
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="So many records on, or back with -N.")
    ] = None,
    from_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Offsets from CSV lines `topic,partition,offset`, or from the JSON that this "
            "command prints; - is stdin.",
        ),
    ] = None,
    topic: TopicFlag = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it; without, it is only shown.")
    ] = False,
    bootstrap: BootstrapFlag = DEFAULT_BOOTSTRAP,
    output: OutputFlag = Output.TABLE,
) -> None:
    """Move a group's committed offsets. The group must have no members.

    Without --topic all partitions are moved that have a committed offset. A group that does not
    exist comes into being.
    """
    from towpath.cli import group_admin, group_reset

    topics = group_reset.parse_topics(topic)
    target = group_reset.target_of(to, shift_by, from_file, name)
    client = admin(bootstrap)
    group_reset.refuse_if_active(group_admin.describe(client, [name])[name])
    committed = group_admin.committed(client, [name])[name]
    partitions = group_reset.scope(client, name, topics, target, committed)
    moves = group_reset.plan(client, target, partitions, committed)
    if execute:
        offsets = {(move.topic, move.partition): move.offset for move in moves}
        group_admin.commit(client, name, offsets)
    if output is Output.JSON:
        print(json.dumps([move.as_json() for move in moves], indent=2))
    else:
        group_reset.show(moves)
    if execute:
        complain(f"{len(moves)} offset{'' if len(moves) == 1 else 's'} of {name} set")
    else:
        complain("nothing was changed: add --execute to do it")


@app.command("delete")
def delete(
    names: Annotated[list[str], typer.Argument(metavar="GROUP...", help="The groups.")],
    topic: TopicFlag = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: BootstrapFlag = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete groups and their offsets, or with --topic only one group's offsets of topics.

    A group must have no members to be deleted, and a topic no subscribed member.
    """
    from towpath.cli.group_reset import parse_topics

    names = list(dict.fromkeys(names))
    topics = parse_topics(topic)
    if topics and len(names) > 1:
        raise UsageError("--topic wants one group")
    client = admin(bootstrap)
    if topics:
        _delete_offsets(client, names[0], topics, yes)
        return
    if not yes:
        typer.confirm(f"Delete {', '.join(names)} and all their offsets?", abort=True)
    with explained("cannot delete groups"):
        futures = client.delete_consumer_groups(names, request_timeout=REQUEST_TIMEOUT_SECONDS)
    failures = []
    for name, future in futures.items():
        try:
            result(future, f"cannot delete group {name}")
        except CliError as error:
            failures.append(str(error))
        else:
            print(f"deleted group {name}")
    if failures:
        raise CliError("; ".join(failures))


def _delete_offsets(
    client: AdminClient, name: str, topics: dict[str, list[int] | None], yes: bool
) -> None:
    from towpath.cli import group_admin

    group = group_admin.existing(client, name)
    committed = group_admin.committed(client, [name])[name]
    doomed = []
    for topic, numbers in topics.items():
        found = [key for key in sorted(committed) if key[0] == topic]
        wanted = found if numbers is None else [(topic, number) for number in numbers]
        missing = [key for key in wanted if key not in committed]
        if not wanted or missing:
            place = topic if not missing else f"{topic} partition {missing[0][1]}"
            raise CliError(f"group {name} has no committed offset of {place}")
        doomed += wanted
    if not yes:
        typer.confirm(f"Delete {len(doomed)} offsets of {name}?", abort=True)
    refused = group_admin.remove(group, doomed)
    for key in doomed:
        if key not in refused:
            print(f"deleted the offset of {key[0]} partition {key[1]}")
    if refused:
        said = "; ".join(f"{key[0]} partition {key[1]}: {why}" for key, why in refused.items())
        raise CliError(f"cannot delete offsets of group {name}: {said}")
