"""The schema of a message as data: what the reader and writer of each version are compiled from.

The modules under `messages/` hold these values; they are generated (`generate.py`) and never
edited by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final
from uuid import UUID

Versions = tuple[int, int]
"""First and last version, both included."""

ZERO_UUID: Final = UUID(int=0)
"""Kafka's "no id". Uuid fields are never None."""

UNSET: Final[Any] = type("Unset", (), {"__repr__": lambda self: "UNSET"})()
"""Stands for the default of a field whose default is a new list or a new struct."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: where it is present, and its form on the wire.

    `kind` is a Kafka primitive (`int8` … `int64`, `uint16`, `uint32`, `float64`, `bool`, `string`,
    `bytes`, `records`, `uuid`) or `struct`, whose class is `struct`. `array` says that the field
    is an array of that kind. `nullable` and `tagged` are the versions in which null may stand for
    the value, and in which the field is a tagged one. `default` is what a new message has, and
    what a reader gives for a version without the field; `UNSET` means a new empty list or a new
    struct.
    """

    name: str
    kind: str
    versions: Versions
    nullable: Versions | None = None
    tag: int | None = None
    tagged: Versions | None = None
    array: bool = False
    default: Any = UNSET
    struct: type[Message] | None = None

    def in_version(self, version: int) -> bool:
        """Whether the field is on the wire at all in `version`."""
        return within(version, self.versions)

    def is_nullable(self, version: int) -> bool:
        """Whether null may be written in `version`."""
        return within(version, self.nullable)

    def is_tagged(self, version: int) -> bool:
        """Whether the field is in the tagged section in `version`."""
        return within(version, self.tagged)

    def new_default(self) -> Any:
        """A value of its own for a new message."""
        if self.default is not UNSET:
            return self.default
        if self.array or self.struct is None:
            return []
        return self.struct()


def within(version: int, versions: Versions | None) -> bool:
    """Whether `version` lies in `versions`; never for None."""
    return versions is not None and versions[0] <= version <= versions[1]


class Message:
    """Base of every message and of every struct inside one.

    Messages are plain mutable objects without a version: they hold the union of the fields of all
    versions. Writing one in a version that lacks a field leaves that field out.
    """

    __slots__ = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS)
        return f"{type(self).__name__}({values})"


class ApiMessage(Message):
    """A whole request or response."""

    __slots__ = ()
    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[Versions]
    """The versions that have a schema; what is served is the registry's business."""
    FLEXIBLE_SINCE: ClassVar[int]
    """The first version with compact forms and tagged fields; beyond the last one if none."""
    REFUSED_SINCE: ClassVar[int | None] = None
    """Versions from here up to the first of VERSIONS have a layout, for refusing them properly."""
