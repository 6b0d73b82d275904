"""Which number each column has in the table, for as long as the topic lives.

Files name their columns by number, so a number stands for one name and one type (or a narrower
one) for ever, also in a table that was dropped and is made again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from towpath.typed import types
from towpath.typed.names import ERROR
from towpath.typed.types import Field, Fields, ListOf, MapOf, Scalar, Struct, Type

FIRST_ID: Final = 1_000
"""Well above those that a catalog gives to a new table's columns."""
ERROR_COLUMN: Final = Field(ERROR, types.STRING, ERROR)

NewId = Callable[[], int]


@dataclass(frozen=True, slots=True)
class KnownColumns:
    """Every typed column that the topic's table ever got."""

    next_id: int = FIRST_ID
    columns: Fields = ()
    inferred: Fields = ()
    """Those that were found in the values, without ids, in the order they were found."""


def place(known: KnownColumns, wanted: Fields, above: int = 0) -> tuple[Fields, KnownColumns]:
    """The wanted columns with their ids, and what is known then. New ids lie above `above`, the
    greatest one that the table has given.

    A column is the one it was before if its type is the same, may be widened to the new one or is
    wider already. Otherwise it is another column of that name.
    """
    numbers = count(max(known.next_id, above + 1))
    last = known.next_id - 1

    def new_id() -> int:
        nonlocal last
        last = next(numbers)
        return last

    columns = list(known.columns)
    placed = []
    for field in wanted:
        at, found = _find(columns, field, new_id)
        if at is None:
            columns.append(found)
        else:
            columns[at] = found
        placed.append(found)
    return tuple(placed), replace(known, next_id=last + 1, columns=tuple(columns))


def _find(columns: list[Field], field: Field, new_id: NewId) -> tuple[int | None, Field]:
    """Where the column is among the known ones, if it is, and what it is from now on."""
    for at, column in enumerate(columns):
        if column.name == field.name and _fits(column.type, field.type):
            kind = _placed(column.type, field.type, new_id)
            return at, Field(field.name, kind, field.source, column.id)
    own_id = new_id()
    return None, Field(field.name, _placed(None, field.type, new_id), field.source, own_id)


def _fits(known: Type, wanted: Type) -> bool:
    """Whether a column of the known type may become one that holds the wanted type, too."""
    match known, wanted:
        case Scalar(), Scalar():
            return (
                known == wanted or types.can_widen(known, wanted) or types.can_widen(wanted, known)
            )
        case Struct(), Struct():
            before = {field.name: field.type for field in known.fields}
            return all(
                field.name not in before or _fits(before[field.name], field.type)
                for field in wanted.fields
            )
        case ListOf(), ListOf():
            return _fits(known.element, wanted.element)
        case MapOf(), MapOf():
            return _fits(known.value, wanted.value)
    return False


def _placed(known: Type | None, wanted: Type, new_id: NewId) -> Type:
    """The type that holds both, with ids: the known ones where there are any."""
    match wanted:
        case Scalar():
            if isinstance(known, Scalar) and types.can_widen(wanted, known):
                return known
            return wanted
        case Struct():
            return _placed_struct(known if isinstance(known, Struct) else None, wanted, new_id)
        case ListOf():
            if isinstance(known, ListOf):
                return ListOf(_placed(known.element, wanted.element, new_id), known.element_id)
            own_id = new_id()
            return ListOf(_placed(None, wanted.element, new_id), own_id)
        case MapOf():
            if isinstance(known, MapOf):
                value = _placed(known.value, wanted.value, new_id)
                return MapOf(value, known.key_id, known.value_id)
            key_id, value_id = new_id(), new_id()
            return MapOf(_placed(None, wanted.value, new_id), key_id, value_id)


def _placed_struct(known: Struct | None, wanted: Struct, new_id: NewId) -> Struct:
    fields = {field.name: field for field in (known.fields if known is not None else ())}
    for field in wanted.fields:
        before = fields.get(field.name)
        own_id = before.id if before is not None else new_id()
        kind = _placed(before.type if before is not None else None, field.type, new_id)
        fields[field.name] = Field(field.name, kind, field.source, own_id)
    return Struct(tuple(fields.values()))


def ids_of(fields: Fields) -> list[int]:
    """Every id in the fields and their parts."""
    return [number for field in fields for number in (field.id, *_ids_in(field.type))]


def _ids_in(kind: Type) -> list[int]:
    match kind:
        case Scalar():
            return []
        case Struct():
            return ids_of(kind.fields)
        case ListOf():
            return [kind.element_id, *_ids_in(kind.element)]
        case MapOf():
            return [kind.key_id, kind.value_id, *_ids_in(kind.value)]


def without_ids(fields: Fields) -> Fields:
    """The fields as a declaration has them."""
    return tuple(Field(field.name, _without_ids(field.type), field.source) for field in fields)


def _without_ids(kind: Type) -> Type:
    match kind:
        case Scalar():
            return kind
        case Struct():
            return Struct(without_ids(kind.fields))
        case ListOf():
            return ListOf(_without_ids(kind.element))
        case MapOf():
            return MapOf(_without_ids(kind.value))
