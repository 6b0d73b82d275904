"""Messages as JSON: only the fields of their version, errors by name, bytes as text or hex."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.schema import ApiMessage, Field, Message

Json = Any


def api_name(message: ApiMessage) -> str:
    """`JoinGroup` for a JoinGroupRequest or JoinGroupResponse."""
    return type(message).__name__.removesuffix("Request").removesuffix("Response")


def render(message: Message, version: int, *, defaults: bool = True) -> dict[str, Json]:
    """The fields of `message` in `version`; without `defaults`, those that were set."""
    rendered = {}
    for field in message.FIELDS:
        if not field.in_version(version):
            continue
        value = getattr(message, field.name)
        if defaults or value != field.new_default():
            rendered[field.name] = _value(field, value, version, defaults)
    return rendered


def _value(field: Field, value: Any, version: int, defaults: bool) -> Json:
    if value is None:
        return None
    if field.array:
        return [_one(field, item, version, defaults) for item in value]
    return _one(field, value, version, defaults)


def _one(field: Field, value: Any, version: int, defaults: bool) -> Json:
    if isinstance(value, Message):
        return render(value, version, defaults=defaults)
    if isinstance(value, UUID):
        return f"uuid:{value}" if value.int else "uuid:0"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes(bytes(value))
    if field.name.endswith("error_code"):
        return ErrorCode(value).name
    return value


def _bytes(data: bytes) -> str:
    if data.isascii() and data.decode().isprintable():
        return f"bytes:{data.decode()}"
    return f"hex:{data.hex()}"
