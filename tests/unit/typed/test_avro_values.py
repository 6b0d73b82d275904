"""Values in Avro, with and without a registry's prefix, become columns."""

from __future__ import annotations

import io
import json
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.typed.columns import typed_columns
from towpath.typed.declaration import declare
from towpath.typed.decode import ValueDecoder
from towpath.typed.ids import KnownColumns
from towpath.typed.types import InvalidSchema, shown

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "count", "type": "int"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "price", "type": PRICE},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "scores", "type": {"type": "map", "values": "double"}},
        {"name": "nothing", "type": "null"},
        {"name": "address", "type": {"type": "record", "name": "Address", "fields": [
            {"name": "city", "type": "string"}, {"name": "City", "type": "float"}]}},
        {"name": "others", "type": {"type": "array", "items": ["null", "Address"]}},
        {"name": "key", "type": "boolean"},
    ],
}  # fmt: skip
VALUE: dict[str, Any] = {
    "id": 1 << 40,
    "count": 3,
    "name": "a",
    "state": "NEW",
    "before": None,
    "price": Decimal("12.50"),
    "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "local": datetime(2026, 1, 31, 12),
    "day": date(2026, 1, 31),
    "clock": time(12, 0, 1),
    "uuid": uuid.UUID(int=7),
    "hash": b"ab",
    "tags": ["x", ""],
    "scores": {"a": 1.5},
    "nothing": None,
    "address": {"city": "Ghent", "City": 0.5},
    "others": [None, {"city": "Bruges", "City": 1.0}],
    "key": True,
}


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def decode(
    schema: object, *values: bytes | None, registry: bool = False
) -> tuple[list[dict[str, Any]], list[str | None]]:
    declaration = declare("avro-registry" if registry else "avro", json.dumps(schema))
    assert declaration is not None
    typed = typed_columns(declaration, KnownColumns())[0]
    *columns, errors = ValueDecoder(typed, infers=False).decode(pa.array(values, pa.binary()))
    names = [field.name for field in typed.fields]
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows], errors.to_pylist()


def test_every_type_of_column() -> None:
    rows, errors = decode(ORDER, encoded(ORDER, VALUE), None)
    assert errors == [None, None]
    wanted = {name: value for name, value in VALUE.items() if name not in ("nothing", "key")}
    wanted |= {
        "uuid": str(VALUE["uuid"]),
        "scores": [("a", 1.5)],
        "address": {"city": "Ghent", "City_2": 0.5},
        "others": [None, {"city": "Bruges", "City_2": 1.0}],
        "value_key": True,
    }
    assert rows[0] == wanted
    assert set(rows[1].values()) == {None}


def test_every_cut_and_every_longer_one_is_an_error() -> None:
    data = encoded(ORDER, VALUE)
    rows, errors = decode(ORDER, *(data[:end] for end in range(len(data))), data + b"\0")
    assert all(error is not None for error in errors)
    assert errors[-1] == "not of its schema: 1 bytes are left over"
    assert all(set(row.values()) == {None} for row in rows)


@given(st.lists(st.binary(max_size=120), max_size=8), st.integers(0, 200), st.integers(0, 255))
def test_nothing_stops_the_decoder(values: list[bytes], at: int, byte: int) -> None:
    changed = bytearray(encoded(ORDER, VALUE))
    changed[at % len(changed)] = byte
    _, errors = decode(ORDER, *values, bytes(changed), encoded(ORDER, VALUE))
    assert len(errors) == len(values) + 2
    assert errors[-1] is None


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
    }


def prefixed(number: int, schema: Any, value: Any) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + encoded(schema, value)


def test_a_registry_s_versions_share_their_columns() -> None:
    one = record(("id", "int"), ("name", "string"))
    two = record(("id", "long"), ("name", ["null", "string"]), ("city", ["null", "string"]))
    rows, errors = decode(
        {"1": one, "70000": two},
        prefixed(1, one, {"id": 1, "name": "a"}),
        prefixed(70_000, two, {"id": 1 << 40, "name": None, "city": "c"}),
        prefixed(2, one, {"id": 1, "name": "a"}),
        encoded(one, {"id": 3, "name": "a"}),
        b"\0\0",
        registry=True,
    )
    assert rows[:2] == [
        {"id": 1, "name": "a", "city": None},
        {"id": 1 << 40, "name": None, "city": "c"},
    ]
    assert errors[:3] == [None, None, "no schema has the id 2"]
    assert all("has no prefix" in str(error) for error in errors[3:])


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("string", "must be a record"),
        ({"type": "record", "name": "R"}, "no list of fields"),
        (record(), "no fields"),
        (record(("a", ["null", "string", "long"])), "a union of null and one type"),
        (record(("a", "strong")), "unknown type 'strong'"),
        (record(("a", {"type": "array", "items": "null"})), "items of null"),
        (record(("a", ["null", "R"])), "R contains itself"),
        (record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 50})), "decimal"),
        (record(("a-b", "int")), "cannot have a field 'a-b'"),
        (record(("a", "int"), ("a", "int")), "cannot have a field 'a', or not twice"),
        (record(("a", {"type": "enum", "name": "E", "symbols": ["?"]})), "no Avro schema"),
    ],
)
def test_a_schema_that_no_columns_can_be_made_of(schema: object, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        declare("avro", json.dumps(schema))


@pytest.mark.parametrize(
    ("schemas", "reason"),
    [
        ({}, "an object of schemas by id"),
        ([], "an object of schemas by id"),
        ({"x": record(("a", "int"))}, "'x' is no id"),
        ({"5000000000": record(("a", "int"))}, "32 bits"),
        (
            {"1": record(("a", "int")), "2": record(("a", "string"))},
            "schema 2: field 'a' is string here and int in a schema before it",
        ),
    ],
)
def test_a_registry_that_no_columns_can_be_made_of(schemas: object, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        declare("avro-registry", json.dumps(schemas))


def test_versions_of_numbers_become_the_widest() -> None:
    schemas = {
        "2": record(("a", "float"), ("b", "double")),
        "1": record(("a", "long"), ("b", "float")),
    }
    declaration = declare("avro-registry", json.dumps(schemas))
    assert declaration is not None
    assert {f.name: shown(f.type) for f in declaration.columns()} == {"a": "double", "b": "double"}
