"""Input lines to records, and start points from text."""

from __future__ import annotations

import io

import pytest

from towpath.cli.errors import UsageError
from towpath.cli.records_in import InputError, LineFormat, Record, read_records
from towpath.cli.start_point import Kind, StartPoint, parse


def records(text: bytes, form: LineFormat) -> list[Record]:
    return list(read_records(io.BytesIO(text), form))


def test_plain_lines() -> None:
    read = records(b"a\n\r\nb\xff\nlast", LineFormat(key=b"k", partition=3))
    assert [record.value for record in read] == [b"a", b"", b"b\xff", b"last"]
    assert read[0].arguments() == {"key": b"k", "value": b"a", "partition": 3}


def test_keys_and_nulls() -> None:
    form = LineFormat(key_separator=b"::", null_value=b"NULL", headers=(("h", b"v"),))
    read = records(b"k::v::w\n::NULL\n", form)
    assert [(record.key, record.value) for record in read] == [(b"k", b"v::w"), (b"", None)]
    assert read[0].arguments()["headers"] == [("h", b"v")]
    with pytest.raises(InputError, match="line 1: no key separator '::'"):
        records(b"none\n", form)


def test_binary_takes_everything() -> None:
    (record,) = records(b"a\nb\x00\n", LineFormat(binary=True))
    assert record.value == b"a\nb\x00\n"


def test_json_lines() -> None:
    line = (
        b'{"key": "k", "value": {"base64": "/wA="}, "headers": [["a", "1"], ["a", null]],'
        b' "partition": 2, "timestamp": 5}\n\n{"value": {"x": [1, "\xc3\xa9"]}}\n{"key": null}\n'
    )
    first, second, third = records(line, LineFormat(json_lines=True, key=b"default"))
    assert first.arguments() == {
        "key": b"k",
        "value": b"\xff\x00",
        "headers": [("a", b"1"), ("a", None)],
        "partition": 2,
        "timestamp": 5,
    }
    assert (second.key, second.value) == (b"default", '{"x":[1,"é"]}'.encode())
    assert (third.key, third.value) == (None, None)
    assert second.place == "line 3"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "line 1: not JSON"),
        (b"[]", "line 1: not a JSON object"),
        (b'{"vlaue": 1}', "line 1: unknown field 'vlaue'"),
        (b'{"partition": -1}', "line 1: partition must be a number from 0"),
        (b'{"timestamp": true}', "line 1: timestamp must be a number from 0"),
        (b'{"headers": 1}', "line 1: headers must be an object or a list"),
        (b'{"value": {"base64": "*"}}', "line 1: not base64"),
    ],
)
def test_json_mistakes(line: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        records(line, LineFormat(json_lines=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", StartPoint(Kind.EARLIEST)),
        ("latest", StartPoint(Kind.LATEST)),
        ("0", StartPoint(Kind.OFFSET, 0)),
        ("-5", StartPoint(Kind.BEFORE_END, 5)),
        ("@1700000000000", StartPoint(Kind.TIME, 1_700_000_000_000)),
        ("2023-11-14T22:13:20Z", StartPoint(Kind.TIME, 1_700_000_000_000)),
        ("2023-11-14T23:13:20.5+01:00", StartPoint(Kind.TIME, 1_700_000_000_500)),
    ],
)
def test_start_points(text: str, expected: StartPoint) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "1.5", "@x", "99999999999999999999"])
def test_other_start_points(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)
