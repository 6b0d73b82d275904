"""Columns found in values: every member of an object that is not null becomes one.

The rule depends on the values alone: the first type that a field shows is its column's type. A
whole number is a `long`, any other number a `double`, an object a struct, an array a list; null,
an empty object and an empty array tell nothing. A value of another type than its column's is the
error of its record, never a change of the column; a whole number fits a `double`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from towpath.typed import types
from towpath.typed.misfit import Misfit, described
from towpath.typed.names import RESERVED, Names
from towpath.typed.types import Field, Fields, ListOf, Scalar, Struct, Type

COLUMNS_MAX: Final = 1_000
"""Columns, with the fields of structs, that are inferred for one topic."""
DEPTH_MAX: Final = 16


def extended(fields: Fields, value: dict[str, Any]) -> Fields:
    """The fields, and those that the object has beside them. Raises Misfit for an object that
    contradicts them, or itself, or needs too many."""
    walk = _Walk(COLUMNS_MAX - _size(fields))
    return walk.members(fields, value, RESERVED, 0)


def united(before: Fields, after: Fields) -> Fields:
    """The fields of both; where they contradict each other, those of `before`."""
    return _united(before, after, RESERVED)


@dataclass(slots=True)
class _Walk:
    left: int
    """How many more columns there may be."""

    def members(
        self, fields: Fields, value: dict[str, Any], reserved: frozenset[str], depth: int
    ) -> Fields:
        if depth > DEPTH_MAX:
            raise Misfit(f"lies deeper than {DEPTH_MAX} levels")
        found = {field.source: field for field in fields}
        names: Names | None = None
        for source, member in value.items():
            known = found.get(source)
            try:
                kind = self._type(known.type if known is not None else None, member, depth)
            except Misfit as misfit:
                raise misfit.inside(source) from None
            if kind is None:
                continue
            if known is None:
                self._take()
                names = names or Names((field.name for field in fields), reserved)
                found[source] = Field(names.give(source), kind, source)
            elif kind != known.type:
                found[source] = Field(known.name, kind, source)
        return tuple(found.values())

    def _type(self, known: Type | None, value: object, depth: int) -> Type | None:
        """The type after this value; None if it is still not known."""
        if value is None:
            return known
        if isinstance(value, dict):
            _check(known is None or isinstance(known, Struct), known, value)
            fields = known.fields if isinstance(known, Struct) else ()
            members = self.members(fields, value, frozenset(), depth + 1)
            return Struct(members) if members else None
        if isinstance(value, list):
            _check(known is None or isinstance(known, ListOf), known, value)
            element = known.element if isinstance(known, ListOf) else None
            for item in value:
                element = self._type(element, item, depth + 1)
            return ListOf(element) if element is not None else None
        kind = _scalar(value)
        _check(
            known is None or known == kind or (known, kind) == (types.DOUBLE, types.LONG),
            known,
            value,
        )
        return kind if known is None else known

    def _take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Misfit(f"would be a new column, and {COLUMNS_MAX} are inferred already")


def _scalar(value: object) -> Scalar:
    if isinstance(value, bool):
        return types.BOOLEAN
    if isinstance(value, int):
        return types.LONG
    return types.DOUBLE if isinstance(value, float) else types.STRING


def _check(fits: bool, known: Type | None, value: object) -> None:
    if not fits:
        assert known is not None
        raise Misfit(f"{described(value)} in a column of type {types.shown(known)}")


def _size(fields: Fields) -> int:
    return sum(1 + _size_in(field.type) for field in fields)


def _size_in(kind: Type) -> int:
    match kind:
        case Struct():
            return _size(kind.fields)
        case ListOf():
            return _size_in(kind.element)
    return 0


def _united(before: Fields, after: Fields, reserved: frozenset[str]) -> Fields:
    found = {field.source: field for field in before}
    names = Names((field.name for field in before), reserved)
    size = _size(before)
    for field in after:
        known = found.get(field.source)
        if known is None:
            more = 1 + _size_in(field.type)
            if size + more <= COLUMNS_MAX:
                size += more
                found[field.source] = Field(names.give(field.source), field.type, field.source)
        else:
            found[field.source] = Field(
                known.name, _united_type(known.type, field.type), field.source
            )
    return tuple(found.values())


def _united_type(before: Type, after: Type) -> Type:
    match before, after:
        case Struct(), Struct():
            return Struct(_united(before.fields, after.fields, frozenset()))
        case ListOf(), ListOf():
            return ListOf(_united_type(before.element, after.element))
    return before
