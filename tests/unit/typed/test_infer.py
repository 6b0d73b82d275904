"""Columns that are inferred: the first type wins, and every field has a column in the end."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from towpath.typed import infer
from towpath.typed.columns import typed_columns
from towpath.typed.declaration import INFER, declare
from towpath.typed.decode import ValueDecoder
from towpath.typed.ids import KnownColumns
from towpath.typed.types import Fields, shown


def found(
    *values: Any, known: Fields = ()
) -> tuple[Fields, list[dict[str, Any]], list[str | None]]:
    """The columns after these values, and the values as they are then, with their errors."""
    declaration = declare("json", INFER)
    assert declaration is not None
    raw = pa.array([json.dumps(value).encode() for value in values], pa.binary())
    for _ in range(20):
        typed = typed_columns(declaration, KnownColumns(inferred=known))[0]
        decoder = ValueDecoder(typed, infers=True)
        *columns, errors = decoder.decode(raw)
        if decoder.new_columns is None:
            made = zip(typed.fields, columns, strict=True)
            lists = {field.name: column.to_pylist() for field, column in made}
            rows = [{name: lists[name][at] for name in lists} for at in range(len(values))]
            return known, rows, errors.to_pylist()
        known = infer.united(known, decoder.new_columns)
    raise AssertionError("it does not come to an end")


def types_of(fields: Fields) -> dict[str, str]:
    return {field.name: shown(field.type) for field in fields}


def test_the_first_type_of_a_field_is_its_columns() -> None:
    known, rows, errors = found(
        {"a": 1, "b": None, "c": [], "d": {}},
        {"a": 2, "b": "x", "c": [None, 1.5], "d": {"e": True}},
        {"a": 2.5},
        {"b": 1, "new": 1},
        {"c": [2], "d": {"f": {"g": "h"}}},
    )
    assert types_of(known) == {
        "a": "long",
        "b": "string",
        "c": "list<double>",
        "d": "struct<e: boolean, f: struct<g: string>>",
    }
    assert errors == [None, None, "a: 2.5 is not an integer", "b: 1 is not a string", None]
    assert [row["a"] for row in rows] == [1, 2, None, None, None]
    assert rows[4]["c"] == [2.0]
    assert rows[4]["d"] == {"e": None, "f": {"g": "h"}}


def test_known_columns_stay_and_conflicts_are_their_records() -> None:
    known, _, _ = found({"a": "x"})
    again, rows, errors = found({"a": 1, "b": 1}, {"a": "y", "b": 2}, known=known)
    assert types_of(again) == {"a": "string", "b": "long"}
    assert errors == ["a: 1 is not a string", None]
    assert rows[1] == {"a": "y", "b": 2}


def test_a_record_that_contradicts_itself() -> None:
    known, _, errors = found({"a": [1, "x"]}, {"a": [1]})
    assert types_of(known) == {"a": "list<long>"}
    assert errors[0] is not None
    assert errors[1] is None


def test_names_of_raw_columns_and_of_the_other_case() -> None:
    known, rows, _ = found({"offset": 1, "ID": 2}, {"id": 3, "a.b": 4})
    assert types_of(known) == {"value_offset": "long", "ID": "long", "id_2": "long", "a_b": "long"}
    assert rows[1] == {"value_offset": None, "ID": None, "id_2": 3, "a_b": 4}


def test_too_many_fields_are_the_record_s_error() -> None:
    many = {f"f{number}": number for number in range(infer.COLUMNS_MAX)}
    known, _, errors = found(many, {"one more": 1}, {"f0": 5})
    assert len(known) == infer.COLUMNS_MAX
    assert errors[0] is errors[2] is None
    assert "1000 are inferred already" in str(errors[1])


def test_what_is_nested_too_deep_is_the_record_s_error() -> None:
    value: Any = 1
    for _ in range(40):
        value = {"a": value}
    _, _, errors = found(value)
    assert "deeper than" in str(errors[0])


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from([0.5, 1.5])
    | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "A", "key"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(json_values, max_size=6), st.lists(json_values, max_size=6))
def test_inference_comes_to_an_end_whatever_comes_first(one: list[Any], two: list[Any]) -> None:
    """Two workers infer on their own; whoever is first, the columns then hold what both wrote."""
    first, _, _ = found(*one)
    second, _, _ = found(*two)
    both = infer.united(first, second)
    assert both[: len(first)] == tuple(
        field for field in both if field.source in {known.source for known in first}
    )
    final, rows, errors = found(*one, *two, known=both)
    assert len({field.name.casefold() for field in final}) == len(final)
    for row, error in zip(rows, errors, strict=True):
        assert error is None or all(value is None for value in row.values())
