"""Which columns a reader wants, and how it gets those that are not stored."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from towpath.records import table
from towpath.typed.arrow import arrow_field, arrow_type
from towpath.typed.columns import TypedColumns
from towpath.typed.decode import ValueDecoder


class Wanted:
    """Columns of a topic's table in the order asked, raw and typed ones."""

    def __init__(self, columns: Sequence[str] | None, typed: TypedColumns | None) -> None:
        """None wants all: the raw columns and, if the topic has any, the typed ones."""
        self._typed = {} if typed is None else {one.name: one for one in typed.all_fields}
        raw = table.arrow_schema().names
        self.names = [*raw, *self._typed] if columns is None else list(columns)
        self._wanted_typed = [name for name in self.names if name in self._typed]
        self._columns = typed
        self._decoder: ValueDecoder | None = None

    def to_read(self, stamp: str, schema: pa.Schema) -> list[str]:
        """The columns to read of a file with this stamp and schema; offsets among them, and values
        where typed columns have to be made of them."""
        return self._raw() + self._wanted_typed if self.are_in(stamp, schema) else self._made_of()

    def to_decode(self) -> pa.Schema:
        """The same for records that are in no file: the fields of the table's schema."""
        schema = table.arrow_schema()
        return pa.schema([schema.field(name) for name in self._made_of()])

    def are_in(self, stamp: str, schema: pa.Schema) -> bool:
        """Whether a file has the wanted typed columns as they are now. Inferred ones may have come,
        or got new parts, since it was written."""
        if self._columns is None or stamp != self._columns.stamp:
            return False
        positions = [schema.get_field_index(name) for name in self._wanted_typed]
        return all(
            at >= 0 and schema.field(at).type == arrow_type(self._typed[name].type)
            for at, name in zip(positions, self._wanted_typed, strict=True)
        )

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The wanted columns of rows that have what `to_read` names."""
        present = set(rows.schema.names)
        if all(name in present for name in self.names):
            return rows.select(self.names)
        made = self._made(rows)
        fields = [
            arrow_field(self._typed[name]) if name in made else rows.schema.field(name)
            for name in self.names
        ]
        arrays = [made[name] if name in made else rows.column(name) for name in self.names]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _raw(self) -> list[str]:
        names = [name for name in self.names if name not in self._typed]
        return [*dict.fromkeys([*names, table.OFFSET])]

    def _made_of(self) -> list[str]:
        """The raw columns that are wanted, and those that typed ones are made of."""
        return [*dict.fromkeys([*self._raw(), *([table.VALUE] if self._wanted_typed else [])])]

    def _made(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        assert self._columns is not None
        if self._decoder is None:
            self._decoder = ValueDecoder(self._columns, infers=False)
        arrays = self._decoder.decode(rows.column(table.VALUE))
        found = zip(self._typed, arrays, strict=True)
        return {name: array for name, array in found if name in self._wanted_typed}
