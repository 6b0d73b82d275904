"""Groups for people: the tables of `towpath groups`."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.cli.group_admin import Member
from towpath.cli.group_reports import GroupReport, PartitionLag, assignment
from towpath.cli.output import table

MEMBER_COLUMNS = ("client", "host", "instance", "assignment", "member")
COLUMNS = ("topic", "partition", "committed", "log end", "lag", "lag in time", "client")

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


def show_list(reports: Sequence[GroupReport]) -> None:
    """One line per group."""
    rows = [
        [
            report.group.name,
            report.group.kind,
            report.group.state,
            str(len(report.group.members)),
            dash(report.lag),
        ]
        for report in reports
    ]
    table(("group", "type", "state", "members", "lag"), rows)


def show_groups(reports: Sequence[GroupReport]) -> None:
    """Everything about groups."""
    for number, report in enumerate(reports):
        if number:
            print()
        _show(report)


def _show(report: GroupReport) -> None:
    group = report.group
    at = group.coordinator
    print(f"group        {group.name}")
    print(f"type         {group.kind}")
    print(f"state        {group.state}")
    print(f"coordinator  {at.broker_id} ({at.host}:{at.port})")
    if group.assignor:
        print(f"assignor     {group.assignor}")
    if report.lag is not None:
        unit = "record" if report.lag == 1 else "records"
        print(f"lag          {report.lag} {unit}, {age(report.lag_ms)}")
    if group.members:
        print()
        table(MEMBER_COLUMNS, [_member_cells(member) for member in group.members])
    print()
    if report.partitions:
        table(COLUMNS, [_cells(each, report.now_ms) for each in report.partitions])
    else:
        print("no committed offsets")


def _member_cells(member: Member) -> list[str]:
    assigned = " ".join(
        f"{topic}:{ranges(numbers)}" for topic, numbers in assignment(member).items()
    )
    return [
        member.client_id,
        member.host,
        dash(member.instance_id),
        assigned or "-",
        member.member_id,
    ]


def _cells(each: PartitionLag, now_ms: int) -> list[str]:
    return [
        each.topic,
        str(each.partition),
        dash(each.committed),
        dash(each.log_end),
        dash(each.lag),
        age(each.lag_ms(now_ms)),
        "-" if each.member is None else each.member.client_id,
    ]


def ranges(numbers: Sequence[int]) -> str:
    """`0-3,7` for ascending numbers."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def age(age_ms: int | None) -> str:
    """`0.3 s`, `4 m 10 s`, `2 h 5 m`, `3 d 1 h`."""
    if age_ms is None:
        return "-"
    if age_ms == 0:
        return "0 s"
    if age_ms < MINUTE_MS:
        return f"{age_ms / SECOND_MS:.1f} s"
    if age_ms < HOUR_MS:
        return f"{age_ms // MINUTE_MS} m {age_ms % MINUTE_MS // SECOND_MS} s"
    if age_ms < DAY_MS:
        return f"{age_ms // HOUR_MS} h {age_ms % HOUR_MS // MINUTE_MS} m"
    return f"{age_ms // DAY_MS} d {age_ms % DAY_MS // HOUR_MS} h"


def dash(value: object) -> str:
    """The value, or a dash for None."""
    return "-" if value is None else str(value)
