"""The typed columns of one topic at one moment, as jobs and readers take them along."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.typed.declaration import Declaration
from towpath.typed.ids import ERROR_COLUMN, KnownColumns, place, without_ids
from towpath.typed.types import Field, Fields


@dataclass(frozen=True, slots=True)
class TypedColumns:
    """A declaration with the columns it has in the table."""

    declaration: Declaration
    fields: Fields
    """In the order of the declaration."""
    error: Field
    inferred: Fields = ()
    """What was found in the values so far, if columns are inferred."""

    @property
    def stamp(self) -> str:
        """Of the files that have these columns."""
        return self.declaration.stamp

    @property
    def all_fields(self) -> Fields:
        """The columns and the error column after them."""
        return (*self.fields, self.error)

    @property
    def is_as_declared(self) -> bool:
        """Whether the table's columns are exactly the declared ones: not wider, and without parts
        that only another declaration had."""
        return without_ids(self.fields) == self.declaration.columns()

    @property
    def names(self) -> list[str]:
        """The names of all of them."""
        return [field.name for field in self.all_fields]


def typed_columns(
    declaration: Declaration, known: KnownColumns, above: int = 0
) -> tuple[TypedColumns, KnownColumns]:
    """The columns of a declaration, and what is known with them; see `ids.place`."""
    wanted = known.inferred if declaration.infers else declaration.columns()
    fields, after = place(known, (*wanted, ERROR_COLUMN), above)
    typed = TypedColumns(declaration, fields[:-1], fields[-1], known.inferred)
    return typed, after
