"""Merges kio's classes of one API, one per version, into version-independent structs."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from towpath.kafka.codec.schema import UNSET, ZERO_UUID, Versions

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

KINDS = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}
"""kio's types that are Kafka integers with a meaning."""
MILLISECOND_TYPES = frozenset({"timedelta_i32", "timedelta_i64", "datetime_i64"})

IMPLICIT_DEFAULTS: dict[str, Any] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": ZERO_UUID,
    "float64": 0.0,
}
"""Kafka's defaults of fields that declare none; integers are 0."""


NULL_BY_DEFAULT = frozenset({("ConsumerGroupHeartbeatRequest", "topic_partitions")})
"""Struct arrays that are null by default; kio leaves that out."""


REMOVED: dict[str, dict[str, int]] = {
    "produce": {"transactional_id": 3, "throttle_time_ms": 1, "log_append_time_ms": 2}
}
"""APIs whose versions from 0 are refused but need a layout for the refusal.

kio lacks these versions. The fields begin with version 0 unless they are named here with their
first version, all as in Kafka's `ProduceRequest.json` and `ProduceResponse.json`.
"""


@dataclass
class MergedField:
    """One field over all versions."""

    name: str
    kind: str
    array: bool
    struct: MergedStruct | None
    default: Any = UNSET
    present: set[int] = field(default_factory=set)
    nullable: set[int] = field(default_factory=set)
    tagged: set[int] = field(default_factory=set)
    tag: int | None = None
    in_parts: bool = False
    """Whether a byte string may be given as a sequence of buffers (records of a response)."""


@dataclass
class MergedStruct:
    """One message, or one struct inside it, over all versions."""

    name: str
    kio_name: str
    fields: list[MergedField] = field(default_factory=list)
    api_key: int | None = None
    versions: Versions | None = None
    flexible_since: int | None = None
    refused_since: int | None = None

    def nested(self) -> list[MergedStruct]:
        """The structs inside, each before the one that uses it."""
        found: list[MergedStruct] = []
        for inner in (each.struct for each in self.fields):
            if inner is not None:
                found.extend(s for s in (*inner.nested(), inner) if s not in found)
        return found


Shared = dict[str, MergedStruct]
"""The structs of one message by kio's name; a struct may be used by several fields."""


def merge_api(name: str, versions: Versions) -> list[MergedStruct]:
    """The request and the response of the API, in this order."""
    roots = [_merge_message(name, kind, versions) for kind in ("request", "response")]
    _separate_names(roots)
    if name in REMOVED:
        for root in roots:
            _add_removed_versions(root, versions[0], REMOVED[name])
    return roots


def _add_removed_versions(root: MergedStruct, first: int, since: dict[str, int]) -> None:
    """Let the fields of the first version begin where Kafka's schemas say."""
    root.refused_since = 0
    for merged in (f for struct in (*root.nested(), root) for f in struct.fields):
        older = set(range(since.get(merged.name, 0), first)) if first in merged.present else set()
        merged.present |= older
        merged.nullable |= older if first in merged.nullable else set()


def _merge_message(api: str, kind: str, versions: Versions) -> MergedStruct:
    suffix = kind.capitalize()
    flexible_since = versions[1] + 1
    root: MergedStruct | None = None
    shared: Shared = {}
    for version in range(versions[1], versions[0] - 1, -1):
        module = importlib.import_module(f"kio.schema.{api}.v{version}.{kind}")
        cls = next(c for n, c in vars(module).items() if n.endswith(suffix) and _is_root(c, module))
        if root is None:
            root = MergedStruct(name=cls.__name__, kio_name=cls.__name__)
            root.api_key, root.versions = int(cls.__api_key__), versions
        if cls.__flexible__:
            flexible_since = version
        _merge_version(root, cls, version, shared)
    assert root is not None
    root.flexible_since = flexible_since
    for merged in (f for struct in (*root.nested(), root) for f in struct.fields):
        merged.in_parts = merged.kind == "records" and kind == "response"
    return root


def _is_root(cls: Any, module: Any) -> bool:
    return (
        dataclasses.is_dataclass(cls)
        and cls.__module__ == module.__name__
        and vars(cls)["__type__"].name in {"request", "response"}
    )


def _merge_version(struct: MergedStruct, cls: Any, version: int, shared: Shared) -> None:
    """Add a version, older than those that were added before."""
    position = 0
    for kio_field in dataclasses.fields(cls):
        kio_type = str(kio_field.metadata.get("kafka_type", "struct"))
        name = kio_field.name + ("_ms" if kio_type in MILLISECOND_TYPES else "")
        known = next((i for i, f in enumerate(struct.fields) if f.name == name), None)
        inner, array, optional = _shape(kio_field.type)
        if known is None:
            merged = _new_field(name, kio_type, inner, array, shared)
            struct.fields.insert(position, merged)
            known = position
        merged = struct.fields[known]
        position = known + 1
        merged.present.add(version)
        _note_default(merged, kio_field, kio_type)
        tag = kio_field.metadata.get("tag")
        if tag is not None:
            merged.tag = int(tag)
            merged.tagged.add(version)
        if optional and kio_type not in {"uuid", *MILLISECOND_TYPES}:
            merged.nullable.add(version)
        if (struct.kio_name, name) in NULL_BY_DEFAULT:
            merged.default = None
        if merged.struct is not None:
            _merge_version(merged.struct, inner, version, shared)


def _new_field(name: str, kio_type: str, inner: Any, array: bool, shared: Shared) -> MergedField:
    struct = None
    if kio_type == "struct":
        new = MergedStruct(name=inner.__name__, kio_name=inner.__name__)
        struct = shared.setdefault(inner.__name__, new)
    return MergedField(name=name, kind=KINDS.get(kio_type, kio_type), array=array, struct=struct)


def _note_default(merged: MergedField, kio_field: Any, kio_type: str) -> None:
    """Take the default of the newest version that has the field."""
    plain_array = merged.array and kio_field.default in ((), dataclasses.MISSING)
    if len(merged.present) > 1 or plain_array:
        return
    if kio_field.default is dataclasses.MISSING:
        if merged.kind != "struct":
            merged.default = IMPLICIT_DEFAULTS.get(merged.kind, 0)
    elif merged.kind == "struct" and kio_field.default is not None:
        assert kio_field.default == type(kio_field.default)(), "a struct's own defaults are used"
    else:
        merged.default = _plain(kio_field.default, kio_type)


def _plain(value: Any, kio_type: str) -> Any:
    if kio_type == "uuid":
        return value or ZERO_UUID
    if kio_type == "datetime_i64":
        return -1 if value is None else (value - EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, bool) or value is None:
        return value
    plain: tuple[Any, ...] = (int, float, str, bytes)
    return next(base(value) for base in plain if isinstance(value, base))


def _shape(annotation: Any) -> tuple[Any, bool, bool]:
    """The inner type, whether it is an array, whether it may be null."""
    optional = False
    if get_origin(annotation) in (UnionType, Union):
        optional = NoneType in get_args(annotation)
        annotation = next(a for a in get_args(annotation) if a is not NoneType)
    if get_origin(annotation) is tuple:
        return get_args(annotation)[0], True, optional
    return annotation, False, optional


def _separate_names(roots: list[MergedStruct]) -> None:
    """Prefix the structs whose name both the request and the response use."""
    request, response = ({s.name for s in root.nested()} for root in roots)
    for root in roots:
        for struct in root.nested():
            if struct.name in request & response:
                struct.name = root.name + struct.name
