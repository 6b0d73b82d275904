"""A column's id stands for its name and type for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.metadata.keys import json_value, value_columns
from towpath.typed import types
from towpath.typed.ids import FIRST_ID, KnownColumns, ids_of, place, without_ids
from towpath.typed.types import Field, Fields, ListOf, MapOf, Struct


def fields(**kinds: types.Type) -> Fields:
    return tuple(Field(name, kind, name) for name, kind in kinds.items())


def test_ids_stay_and_new_columns_get_new_ones() -> None:
    one, known = place(KnownColumns(), fields(a=types.LONG, b=types.STRING))
    assert [field.id for field in one] == [FIRST_ID, FIRST_ID + 1]
    two, known = place(known, fields(c=types.DATE, a=types.LONG))
    assert [field.id for field in two] == [FIRST_ID + 2, FIRST_ID]
    again, same = place(known, fields(a=types.LONG, b=types.STRING))
    assert again == one
    assert same == known


def test_a_type_that_may_be_widened_keeps_its_column() -> None:
    narrow = fields(a=types.INT, d=types.decimal(5, 2))
    wide = fields(a=types.LONG, d=types.decimal(9, 2))
    one, known = place(KnownColumns(), narrow)
    two, known = place(known, wide)
    assert ids_of(two) == ids_of(one)
    assert without_ids(two) == wide
    back, _ = place(known, narrow)
    assert back == two


def test_another_type_is_another_column_and_comes_back() -> None:
    one, known = place(KnownColumns(), fields(a=types.LONG))
    two, known = place(known, fields(a=types.DOUBLE))
    assert one[0].id != two[0].id
    back, after = place(known, fields(a=types.LONG))
    assert back == one
    assert after == known


def test_parts_get_ids_and_keep_them() -> None:
    kind = Struct(fields(x=types.LONG, y=ListOf(MapOf(types.STRING))))
    one, known = place(KnownColumns(), fields(s=kind))
    assert len(set(ids_of(one))) == len(ids_of(one)) == 6
    grown = Struct(fields(y=ListOf(MapOf(types.STRING)), z=types.DATE))
    two, _ = place(known, fields(s=grown))
    (column,) = two
    assert isinstance(column.type, Struct)
    assert [field.name for field in column.type.fields] == ["x", "y", "z"]
    assert set(ids_of(one)) < set(ids_of(two))


def test_ids_lie_above_those_that_others_gave() -> None:
    one, known = place(KnownColumns(), fields(a=types.LONG), above=5_000)
    assert one[0].id == 5_001
    two, _ = place(known, fields(a=types.LONG, b=types.LONG), above=6_000)
    assert [field.id for field in two] == [5_001, 6_001]


kinds = st.recursive(
    st.sampled_from([types.Scalar(name) for name in sorted(types.SCALARS)])
    | st.builds(types.decimal, st.integers(5, 38), st.integers(0, 5)),
    lambda inner: (
        st.builds(ListOf, inner)
        | st.builds(MapOf, inner)
        | st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(
            lambda d: Struct(fields(**d))
        )
    ),
    max_leaves=5,
)
columns = st.dictionaries(st.sampled_from("abcd"), kinds, max_size=4).map(lambda d: fields(**d))


@given(st.lists(columns, max_size=5))
def test_whatever_is_declared_an_id_is_one_column_for_ever(declared: list[Fields]) -> None:
    known, seen = KnownColumns(), dict[int, str]()
    for wanted in declared:
        placed, known = place(known, wanted)
        assert [field.name for field in placed] == [field.name for field in wanted]
        numbers = ids_of(known.columns)
        assert len(set(numbers)) == len(numbers)
        assert all(FIRST_ID <= number < known.next_id for number in numbers)
        for field in known.columns:
            assert seen.setdefault(field.id, field.name) == field.name
        assert value_columns.decode(value_columns.encode(known)) == known


@pytest.mark.parametrize(
    "value",
    [b"", b"{}", b'{"version":2}', b'{"version":1,"nextId":1,"columns":[{}],"inferred":[]}'],
)
def test_a_damaged_record_is_refused(value: bytes) -> None:
    with pytest.raises(json_value.UnknownValueVersion):
        value_columns.decode(value)
