"""Rows with typed columns: the raw columns stay as they are, the others come after them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from towpath.records import table
from towpath.typed.arrow import arrow_field
from towpath.typed.columns import TypedColumns
from towpath.typed.decode import ValueDecoder
from towpath.typed.types import Fields


def with_typed(schema: pa.Schema, typed: TypedColumns | None) -> pa.Schema:
    """The schema with the typed columns, if there are any."""
    if typed is None:
        return schema
    return pa.schema([*schema, *(arrow_field(field) for field in typed.all_fields)])


class Attach:
    """Adds the typed columns to rows of a topic that are being written."""

    def __init__(self, raw: pa.Schema, typed: TypedColumns) -> None:
        self.schema = with_typed(raw, typed)
        self._decoder = ValueDecoder(typed, infers=True)

    @property
    def new_columns(self) -> Fields | None:
        """See `ValueDecoder`."""
        return self._decoder.new_columns

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, which have the raw columns in their order, with the others behind them."""
        value = rows.column(rows.schema.get_field_index(table.VALUE))
        columns: Sequence[pa.Array] = [*rows.columns, *self._decoder.decode(value)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
