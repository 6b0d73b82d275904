"""Values in JSON become columns, or an error that says where they do not fit."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.typed.columns import TypedColumns, typed_columns
from towpath.typed.declaration import declare
from towpath.typed.decode import ValueDecoder
from towpath.typed.ids import KnownColumns
from towpath.typed.types import InvalidSchema, shown

SCHEMA = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "small": {"type": "integer", "format": "int32"},
        "price": {"type": "number"},
        "name": {"type": ["string", "null"]},
        "paid": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "raw": {"type": "string", "contentEncoding": "base64"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "extra": {},
        "address": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
        },
        "scores": {"type": "object", "additionalProperties": {"type": "number"}},
        "timestamp": {"type": "integer"},
    },
}


def typed_of(schema: object, format_name: str = "json") -> TypedColumns:
    declaration = declare(format_name, schema if isinstance(schema, str) else json.dumps(schema))
    assert declaration is not None
    return typed_columns(declaration, KnownColumns())[0]


def decode(
    schema: object, *values: object, format_name: str = "json"
) -> tuple[list[dict[str, Any]], list[str | None]]:
    """The typed columns of each value, and its error."""
    typed = typed_of(schema, format_name)
    raw = [
        value if isinstance(value, bytes | None) else json.dumps(value).encode() for value in values
    ]
    *columns, errors = ValueDecoder(typed, infers=False).decode(pa.array(raw, pa.binary()))
    names = [field.name for field in typed.fields]
    rows = [
        dict(zip(names, row, strict=True))
        for row in zip(*(c.to_pylist() for c in columns), strict=True)
    ]
    return rows, errors.to_pylist()


def error_of(schema: object, value: object) -> str:
    rows, (error,) = decode(schema, value)
    assert error is not None
    assert all(column is None for column in rows[0].values())
    return error


def test_every_type_of_column() -> None:
    value = {
        "id": 7,
        "small": -3,
        "price": 2,
        "name": None,
        "paid": True,
        "at": "2026-01-31T12:00:00.5+01:00",
        "day": "2026-01-31",
        "raw": "AAE=",
        "tags": ["a", "b"],
        "extra": {"x": [1, None]},
        "address": {"city": "Ghent", "other": 1},
        "scores": {"a": 1, "b": 2.5},
        "timestamp": 5,
    }
    rows, errors = decode(SCHEMA, value, {"id": 1}, None)
    assert errors == [None, None, None]
    assert rows[0] == {
        "id": 7,
        "small": -3,
        "price": 2.0,
        "name": None,
        "paid": True,
        "at": datetime(2026, 1, 31, 11, 0, 0, 500_000, tzinfo=UTC),
        "day": date(2026, 1, 31),
        "raw": b"\x00\x01",
        "tags": ["a", "b"],
        "extra": '{"x":[1,null]}',
        "address": {"city": "Ghent", "zip": None},
        "scores": [("a", 1.0), ("b", 2.5)],
        "value_timestamp": 5,
    }
    assert rows[1] == {**dict.fromkeys(rows[0]), "id": 1}
    assert rows[2] == dict.fromkeys(rows[0])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"id": "7"}, 'id: "7" is not an integer'),
        ({"id": True}, "id: true is not an integer"),
        ({"id": 1.5}, "id: 1.5 is not an integer"),
        ({"id": 1 << 63}, "id: 9223372036854775808 has more than 64 bits"),
        ({"id": 1, "small": 1 << 31}, "small: 2147483648 has more than 32 bits"),
        ({"price": 1}, "id: is required and missing"),
        ({"id": None}, "id: null is not an integer"),
        ({"id": 1, "price": "x" * 100}, f'price: "{"x" * 36}... is not a number'),
        ({"id": 1, "at": "2026-01-31T12:00:00"}, "at: "),
        ({"id": 1, "at": "2026-02-31T12:00:00Z"}, "at: "),
        ({"id": 1, "day": "31.01.2026"}, "day: "),
        ({"id": 1, "raw": "%%%"}, "raw: "),
        ({"id": 1, "tags": ["a", 1]}, "tags.1: 1 is not a string"),
        ({"id": 1, "address": {"zip": "x"}}, 'address.zip: "x" is not an integer'),
        ({"id": 1, "scores": {"a": "b"}}, 'scores.a: "b" is not a number'),
        ([1], "an array is no object"),
        (b"{", "not JSON: "),
        (b'{"id": NaN}', "NaN is not JSON"),
        (b'{"id": 1, "price": 1e999}', "price: is larger than any number"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"", "not JSON: "),
        (b"[" * 100_000, "not JSON that can be read"),
        (b'{"id": 1, "name": "\\ud800"}', ""),
        (b'{"id": ' + b"9" * 5000 + b"}", ""),
    ],
)
def test_what_does_not_fit_says_where(value: object, reason: str) -> None:
    assert error_of(SCHEMA, value).startswith(reason)


def test_one_that_does_not_fit_leaves_the_others_alone() -> None:
    bad = b'{"id": 2, "name": "\\ud800"}'
    rows, errors = decode(SCHEMA, {"id": 1}, bad, {"id": 3}, b"?", None)
    assert [row["id"] for row in rows] == [1, None, 3, None, None]
    assert [error is None for error in errors] == [True, False, True, False, True]


def test_a_closed_object_has_no_other_members() -> None:
    schema = {**SCHEMA, "additionalProperties": False}
    assert error_of(schema, {"id": 1, "b": 2, "a": 3}) == "a: is not in the schema"


def test_names_that_sql_could_not_tell_apart() -> None:
    names = ("Key", "a.b", "a_b", "ID", "id", "value_error", "value_key", "")
    properties = {name: {"type": "string"} for name in names}
    typed = typed_of({"properties": properties})
    assert [field.name for field in typed.fields] == [
        "value_Key", "a_b", "a_b_2", "ID", "id_2", "value_value_error", "value_key_2", "_",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "the schema is not JSON"),
        ([], "the schema is no schema"),
        ({"type": "string"}, "must be of type object"),
        ({"type": "object"}, "names no properties"),
        ({"properties": {"a": {"type": "strong"}}}, "'strong' is not one of"),
        ({"properties": {"a": {"type": ["string", "integer"]}}}, "a column has one type"),
        ({"properties": {"a": {"type": "string", "pattern": "x"}}}, "'pattern' is not supported"),
        ({"properties": {"a": {"oneOf": []}}}, "'oneOf' is not supported"),
        ({"properties": {"a": {}}, "required": ["b"]}, "'b' is required"),
    ],
)
def test_a_schema_that_no_columns_can_be_made_of(schema: object, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        typed_of(schema)


def test_types_for_people() -> None:
    found = {field.name: shown(field.type) for field in typed_of(SCHEMA).fields}
    assert found["address"] == "struct<city: string, zip: long>"
    assert found["tags"] == "list<string>"
    assert found["scores"] == "map<string, double>"
    assert found["at"] == "timestamptz"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
near_values = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(SCHEMA["properties"], json_values),
)


@given(st.lists(st.one_of(st.none(), st.binary(), near_values, json_values), max_size=8))
def test_nothing_stops_the_decoder(values: list[Any]) -> None:
    rows, errors = decode(SCHEMA, *values)
    assert len(rows) == len(errors) == len(values)
    for row, error in zip(rows, errors, strict=True):
        assert error is None or all(column is None for column in row.values())
