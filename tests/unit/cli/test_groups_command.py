"""`towpath groups` without a broker: mistakes, reports, and which offsets a reset sets."""

from __future__ import annotations

import io
import json
import socket
from pathlib import Path

import pytest

from towpath.cli import group_reset, offsets_file, show_groups, start_point
from towpath.cli.errors import CliError, UsageError
from towpath.cli.group_admin import Coordinator, Group, Member
from towpath.cli.group_reports import GroupReport, behind, partition_lags
from towpath.cli.group_reset import Move, Shift, moves_to
from towpath.cli.main import run

NOW_MS = 1_700_000_100_000
COORDINATOR = Coordinator(1, "127.0.0.1", 9092)
BOUNDS = {("orders", 0): (10, 50), ("orders", 1): (0, 8)}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOWPATH_BOOTSTRAP", raising=False)
    monkeypatch.setenv("TOWPATH_COMMAND", "towpath")


# Mistakes


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("groups reset", 2, "Missing argument 'GROUP'"),
        ("groups reset g", 2, "give one of --to, --shift-by and --from-file"),
        ("groups reset g --to 1 --shift-by 2", 2, "give one of --to, --shift-by and --from-file"),
        ("groups reset g --to when", 2, "--to wants earliest, latest"),
        ("groups reset g --to 1 --topic a:", 2, "--topic wants NAME or NAME:0,2, each topic once"),
        ("groups reset g --to 1 --topic a:x", 2, "--topic wants NAME or NAME:0,2"),
        ("groups reset g --to 1 --topic a --topic a", 2, "--topic wants NAME or NAME:0,2"),
        ("groups reset g --shift-by x", 2, "Invalid value for '--shift-by'"),
        ("groups reset g --from-file none", 1, "cannot read none: No such file or directory"),
        ("groups delete", 2, "Missing argument 'GROUP...'"),
        ("groups delete a b --topic t --yes", 2, "--topic wants one group"),
        ("groups list --output xml", 2, "Invalid value for '--output'"),
    ],
)
def test_mistakes_get_one_line(
    line: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split()) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"towpath: {message}")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    ["groups list", "groups describe g", "groups reset g --to latest", "groups delete g --yes"],
)
def test_nobody_listens(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
        assert run([*line.split(), "--bootstrap", address]) == 1
    expected = f"towpath: no broker answers at {address}: Connection refused\n"
    assert capsys.readouterr().err == expected


# Files of offsets


@pytest.mark.parametrize(
    "text",
    [
        "orders,0,5\npay,1,7\n",
        '"orders","0","5"\r\n pay , 1 , 7 \r\n\r\n',
        "topic,partition,offset\norders,0,5\npay,1,7",
        "g,orders,0,5\nother,orders,0,9\ng,pay,1,7\n",
        "group,topic,partition,offset\ng,orders,0,5\ng,pay,1,7\n",
        '[{"topic": "orders", "partition": 0, "offset": 5, "log_end": 9},'
        ' {"topic": "pay", "partition": "1", "offset": "7"}]',
    ],
)
def test_offsets_in_files(text: str) -> None:
    assert offsets_file.parse(text, "g", "f") == {("orders", 0): 5, ("pay", 1): 7}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("orders,0", "line 1 of f is not topic,partition,offset"),
        ("orders,0,5\norders,x,5", "line 2 of f has no valid topic, partition and offset"),
        ("orders,0,-1", "line 1 of f has no valid"),
        ("orders,0,5\norders,0,6", "line 2 of f names orders partition 0 a second time"),
        ("[", "f is not JSON"),
        ('{"topic": "a"}', "f is not a JSON list"),
        ('[{"topic": "a"}]', "item 1 of f has no topic, partition and offset"),
        ('[{"topic": "a", "partition": 0, "offset": 1.5}]', "item 1 of f has no valid"),
        ('[{"topic": "a", "partition": true, "offset": 1}]', "item 1 of f has no valid"),
    ],
)
def test_files_that_cannot_be_read(text: str, says: str) -> None:
    with pytest.raises(CliError, match=says):
        offsets_file.parse(text, "g", "f")


def test_a_file_without_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("other,orders,0,5\n")
    with pytest.raises(CliError, match="there are no offsets of group g"):
        offsets_file.load(str(file), "g")
    monkeypatch.setattr("sys.stdin", io.StringIO("orders,0,5\n"))
    assert offsets_file.load("-", "g") == {("orders", 0): 5}


# Resets


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (start_point.parse("earliest"), [10, 0]),
        (start_point.parse("latest"), [50, 8]),
        (start_point.parse("5"), [10, 5]),
        (start_point.parse("20"), [20, 8]),
        (start_point.parse("-5"), [45, 3]),
        (start_point.parse("-20"), [30, 0]),
        (start_point.parse(f"@{NOW_MS}"), [33, 8]),
        (Shift(-3), [27, 1]),
        (Shift(1_000), [50, 8]),
        (Shift(-1_000), [10, 0]),
        ({("orders", 0): 11, ("orders", 1): 0}, [11, 0]),
    ],
)
def test_where_a_reset_goes(target: group_reset.Target, expected: list[int]) -> None:
    committed = {("orders", 0): 30, ("orders", 1): 4}
    at_time = {("orders", 0): 33, ("orders", 1): -1}
    moves = moves_to(target, BOUNDS, committed, at_time)
    assert [move.offset for move in moves] == expected
    assert [move.committed for move in moves] == [30, 4]


def test_an_offset_outside_the_log_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    moves_to(start_point.parse("20"), BOUNDS, {}, {})
    expected = "towpath: warning: offset 20 is outside [0, 8] of orders partition 1: 8 is taken\n"
    assert capsys.readouterr().err == expected


def test_nothing_can_be_shifted_that_is_not_there() -> None:
    with pytest.raises(CliError, match="orders partition 1 has no committed offset"):
        moves_to(Shift(1), BOUNDS, {("orders", 0): 20}, {})


def test_the_json_of_a_reset_is_a_file_for_the_next() -> None:
    moves = [Move("orders", 0, None, 11, 10, 50), Move("orders", 1, 4, 0, 0, 8)]
    text = json.dumps([move.as_json() for move in moves])
    assert offsets_file.parse(text, "g", "f") == {("orders", 0): 11, ("orders", 1): 0}


def test_topics_and_partitions() -> None:
    assert group_reset.parse_topics(["a", "b:2,0,2"]) == {"a": None, "b": [0, 2]}
    assert group_reset.parse_topics(None) == {}
    with pytest.raises(UsageError):
        group_reset.parse_topics([":1"])


def test_a_group_with_members_is_refused() -> None:
    member = Member("m-1", "m", "127.0.0.1", None, ())
    group_reset.refuse_if_active(Group("g", "classic", "Empty", "", COORDINATOR, ()))
    group_reset.refuse_if_active(Group("g", "classic", "Dead", "", COORDINATOR, ()))
    for state in ("Stable", "PreparingRebalance", "Reconciling"):
        active = Group("g", "consumer", state, "", COORDINATOR, (member,))
        with pytest.raises(CliError, match=f"is {state} with 1 member"):
            group_reset.refuse_if_active(active)


# Reports


def report() -> GroupReport:
    members = (
        Member("a-1", "a", "10.0.0.1", None, (("orders", 0), ("orders", 1), ("orders", 3))),
        Member("b-2", "b", "10.0.0.2", "b", ()),
    )
    group = Group("g", "classic", "Stable", "range", COORDINATOR, members)
    committed = {("orders", 0): 5, ("orders", 1): 9, ("orders", 2): 2, ("gone", 0): 1}
    ends = {("orders", 0): 9, ("orders", 1): 9, ("orders", 2): 3, ("orders", 3): 4}
    assert behind(committed, ends) == {("orders", 0): 5, ("orders", 2): 2}
    times_ms = {("orders", 0): NOW_MS - 90_500}
    return GroupReport(group, partition_lags(group, committed, ends, times_ms), NOW_MS)


def test_lag_by_records_and_by_time() -> None:
    found = report().as_json()
    assert (found["lag"], found["lag_seconds"]) == (5, 90.5)
    partitions = found["partitions"]
    assert isinstance(partitions, list)
    rows = [
        (p["topic"], p["partition"], p["committed_offset"], p["lag"], p["lag_seconds"])
        for p in partitions
    ]
    assert rows == [
        ("gone", 0, 1, None, None),
        ("orders", 0, 5, 4, 90.5),
        ("orders", 1, 9, 0, 0.0),
        ("orders", 2, 2, 1, None),
        ("orders", 3, None, None, None),
    ]
    assert [p["member_id"] for p in partitions] == [None, "a-1", "a-1", None, "a-1"]
    assert partitions[1]["first_unread"] == "2023-11-14T22:13:29.500Z"


def test_a_commit_beyond_the_end_is_no_lag() -> None:
    group = Group("g", "classic", "Empty", "", COORDINATOR, ())
    (lag,) = partition_lags(group, {("orders", 0): 50}, {("orders", 0): 9}, {})
    assert (lag.lag, lag.lag_ms(NOW_MS)) == (0, 0)


def test_groups_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    show_groups.show_groups([report()])
    assert capsys.readouterr().out.splitlines() == [
        "group        g",
        "type         classic",
        "state        Stable",
        "coordinator  1 (127.0.0.1:9092)",
        "assignor     range",
        "lag          5 records, 1 m 30 s",
        "",
        "client  host      instance  assignment    member",
        "a       10.0.0.1  -         orders:0-1,3  a-1",
        "b       10.0.0.2  b         -             b-2",
        "",
        "topic   partition  committed  log end  lag  lag in time  client",
        "gone    0          1          -        -    -            -",
        "orders  0          5          9        4    1 m 30 s     a",
        "orders  1          9          9        0    0 s          a",
        "orders  2          2          3        1    -            -",
        "orders  3          -          4        -    -            a",
    ]
    show_groups.show_list([report()])
    assert capsys.readouterr().out.splitlines() == [
        "group  type     state   members  lag",
        "g      classic  Stable  2        5",
    ]


@pytest.mark.parametrize(
    ("age_ms", "text"),
    [
        (None, "-"),
        (0, "0 s"),
        (340, "0.3 s"),
        (59_000, "59.0 s"),
        (250_000, "4 m 10 s"),
        (7_500_000, "2 h 5 m"),
        (263_000_000, "3 d 1 h"),
    ],
)
def test_ages(age_ms: int | None, text: str) -> None:
    assert show_groups.age(age_ms) == text
