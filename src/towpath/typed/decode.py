"""Batches of values as columns, with the reason for each that does not fit.

A record that does not fit has null in every column and its reason in the error column. A record
without a value (a marker of a deleted key) has null in both. Nothing that a value holds makes this
raise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from towpath.typed import infer
from towpath.typed.arrow import arrow_type
from towpath.typed.columns import TypedColumns
from towpath.typed.declaration import ValueFormat
from towpath.typed.json_values import converter, parse
from towpath.typed.misfit import Misfit, reason_of
from towpath.typed.shapes import shape_of
from towpath.typed.types import Fields

Read = Callable[[bytes], dict[str, Any]]
"""A value's columns by name; what is not there is null. Raises Misfit for one that does not fit."""


class ValueDecoder:
    """Decodes values of one topic. Several threads may use one that does not infer."""

    def __init__(self, typed: TypedColumns, *, infers: bool) -> None:
        """With `infers` it looks for fields that are in no column yet, if they are not declared."""
        self._fields = typed.fields
        self._types = [arrow_type(field.type) for field in typed.fields]
        self._inferring: InferringReader | None = None
        if infers and typed.declaration.infers:
            self._inferring = InferringReader(typed.inferred)
        self._read: Read = self._inferring or _reader(typed)

    @property
    def new_columns(self) -> Fields | None:
        """All inferred columns, once values had fields that are in no column yet."""
        return self._inferring.new_columns if self._inferring is not None else None

    def decode(self, values: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
        """The columns in their order, and the error column after them."""
        raw: list[bytes | None] = values.to_pylist()
        rows: list[dict[str, Any] | None] = []
        errors: list[str | None] = []
        for value in raw:
            row, error = self._row(value)
            rows.append(row)
            errors.append(error)
        columns = self._columns(rows, errors)
        return [*columns, pa.array(errors, pa.string())]

    def _row(self, value: bytes | None) -> tuple[dict[str, Any] | None, str | None]:
        if value is None:
            return None, None
        try:
            return self._read(value), None
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it is its record's.
            return None, reason_of(error)

    def _columns(
        self, rows: list[dict[str, Any] | None], errors: list[str | None]
    ) -> list[pa.Array]:
        try:
            return self._arrays(rows)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            # Rare: a value that is right in its format and that no column holds.
            for at, row in enumerate(rows):
                try:
                    self._arrays([row])
                except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                    rows[at], errors[at] = None, reason_of(Misfit(str(error)))
            return self._arrays(rows)

    def _arrays(self, rows: Sequence[dict[str, Any] | None]) -> list[pa.Array]:
        return [
            pa.array([None if row is None else row.get(field.name) for row in rows], kind)
            for field, kind in zip(self._fields, self._types, strict=True)
        ]


class InferringReader:
    """Reads objects in JSON and finds the fields that no column has yet."""

    def __init__(self, known: Fields) -> None:
        self._known = known
        self._fields = known
        self._is_unfamiliar = False
        self._convert = self._converter()

    @property
    def new_columns(self) -> Fields | None:
        """Known and new ones; None without new ones."""
        return self._fields if self._fields != self._known else None

    def __call__(self, value: bytes) -> dict[str, Any]:
        """The columns of an object. Raises Misfit."""
        found = parse(value)
        self._is_unfamiliar = False
        row: dict[str, Any] = self._convert(found)
        if self._is_unfamiliar:
            fields = infer.extended(self._fields, found)
            if fields != self._fields:
                self._fields = fields
                self._convert = self._converter()
        return row

    def _converter(self) -> Callable[[Any], Any]:
        return converter(shape_of(self._fields), self._note)

    def _note(self) -> None:
        self._is_unfamiliar = True


def _reader(typed: TypedColumns) -> Read:
    declaration = typed.declaration
    if declaration.format is not ValueFormat.JSON:
        from towpath.typed.avro_values import AvroReader

        return AvroReader(declaration, declaration.columns())
    is_inferred = declaration.infers
    convert = converter(shape_of(typed.inferred) if is_inferred else declaration.shape())

    def read(value: bytes) -> dict[str, Any]:
        row: dict[str, Any] = convert(parse(value))
        return row

    return read
