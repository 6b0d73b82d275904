"""A table's schema with a topic's typed columns: columns are added and widened, never removed.

A field that got a type its column cannot be widened to is another column. It gets the field's name,
and the column that had it keeps its id and is called after its type as well: `amount_long`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    SetCurrentSchemaUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from towpath.lakehouse.tables import TableError
from towpath.typed.ids import ids_of
from towpath.typed.names import free_name
from towpath.typed.types import Field, Fields, ListOf, MapOf, Scalar, Struct, Type, decimal_of

SCALARS: dict[str, PrimitiveType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestamptzType(),
}
WIDENED: set[tuple[type[IcebergType], type[IcebergType]]] = {
    (IntegerType, LongType),
    (FloatType, DoubleType),
}


def schema_updates(
    metadata: TableMetadata, wanted: Fields
) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
    """What the catalog is asked for so that the table has the columns; nothing if it has. Raises
    TableError if one of their ids is somebody else's column."""
    before = metadata.schema()
    fields = with_columns(before.fields, wanted)
    if fields == list(before.fields):
        return (), ()
    number = max(schema.schema_id for schema in metadata.schemas) + 1
    after = Schema(
        *fields, schema_id=number, identifier_field_ids=list(before.identifier_field_ids)
    )
    requirements = (
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
        AssertLastAssignedFieldId.model_validate(
            {"last-assigned-field-id": metadata.last_column_id}
        ),
    )
    updates = (
        AddSchemaUpdate.model_validate({"schema": after}),
        SetCurrentSchemaUpdate.model_validate({"schema-id": number}),
    )
    return requirements, updates


def check_columns(schema: Schema, wanted: Fields) -> None:
    """Raise TableError unless the table has the columns under their ids: a catalog may number
    columns as it likes, and files name theirs by id."""
    present = schema.field_ids
    missing = [number for number in ids_of(wanted) if number not in present]
    if missing:
        raise TableError(f"the catalog gave the column {missing[0]} another id")


def with_columns(fields: Sequence[NestedField], wanted: Fields) -> list[NestedField]:
    """The fields of a schema with the wanted columns among them."""
    found = list(fields)
    for field in wanted:
        at = next((at for at, one in enumerate(found) if one.field_id == field.id), None)
        _give_name(found, field, at)
        if at is None:
            found.append(_nested(field))
        else:
            kind = _both(found[at].field_type, field.type, field.name)
            found[at] = _changed(found[at], name=field.name, kind=kind)
    return found


def _give_name(found: list[NestedField], field: Field, own: int | None) -> None:
    """Rename a column that has the name of another one, which shall have it."""
    for at, other in enumerate(found):
        if at != own and other.name.casefold() == field.name.casefold():
            taken = [one.name for one in found]
            name = free_name(f"{other.name}_{_word(other.field_type)}", taken)
            found[at] = _changed(other, name=name)


def _word(kind: IcebergType) -> str:
    return str(kind).partition("(")[0].partition("<")[0]


def _changed(
    field: NestedField, *, name: str | None = None, kind: IcebergType | None = None
) -> NestedField:
    return NestedField(
        field_id=field.field_id,
        name=field.name if name is None else name,
        field_type=field.field_type if kind is None else kind,
        required=field.required,
        doc=field.doc,
    )


def _nested(field: Field) -> NestedField:
    return NestedField(
        field_id=field.id, name=field.name, field_type=iceberg_type(field.type), required=False
    )


def iceberg_type(kind: Type) -> IcebergType:
    """The type as Iceberg has it."""
    match kind:
        case Scalar():
            precision = decimal_of(kind)
            return SCALARS[kind.name] if precision is None else DecimalType(*precision)
        case Struct():
            return StructType(*(_nested(field) for field in kind.fields))
        case ListOf():
            return ListType(
                element_id=kind.element_id,
                element_type=iceberg_type(kind.element),
                element_required=False,
            )
        case MapOf():
            return MapType(
                key_id=kind.key_id,
                key_type=StringType(),
                value_id=kind.value_id,
                value_type=iceberg_type(kind.value),
                value_required=False,
            )


def _both(known: IcebergType, wanted: Type, place: str) -> IcebergType:
    """The type that holds the column's type and the wanted one."""
    match known, wanted:
        case PrimitiveType(), Scalar():
            return _wider(known, iceberg_type(wanted), place)
        case StructType(), Struct():
            return StructType(*with_columns(known.fields, wanted.fields))
        case ListType(), ListOf() if known.element_id == wanted.element_id:
            element = _both(known.element_type, wanted.element, place)
            return ListType(
                element_id=known.element_id, element_type=element, element_required=False
            )
        case MapType(), MapOf() if known.value_id == wanted.value_id:
            value = _both(known.value_type, wanted.value, place)
            return MapType(
                key_id=known.key_id,
                key_type=known.key_type,
                value_id=known.value_id,
                value_type=value,
                value_required=False,
            )
    raise _taken(known, iceberg_type(wanted), place)


def _wider(known: PrimitiveType, wanted: IcebergType, place: str) -> IcebergType:
    if known == wanted or (type(wanted), type(known)) in WIDENED:
        return known
    if (type(known), type(wanted)) in WIDENED:
        return wanted
    if (
        isinstance(known, DecimalType)
        and isinstance(wanted, DecimalType)
        and known.scale == wanted.scale
    ):
        return known if known.precision >= wanted.precision else wanted
    raise _taken(known, wanted, place)


def _taken(known: IcebergType, wanted: IcebergType, place: str) -> TableError:
    return TableError(
        f"the id of the column {place!r} is that of a column of type {known}, not {wanted}"
    )
