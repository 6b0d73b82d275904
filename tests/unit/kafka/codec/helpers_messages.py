"""Random messages made from the schema data, and kio's messages turned into ours."""

from __future__ import annotations

import datetime
import importlib
import inspect
import random
from typing import Any
from uuid import UUID

from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.generate import SERVED
from towpath.kafka.codec.schema import ZERO_UUID, ApiMessage, Field, Message

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
LAST_INSTANT_S = 253_402_300_799
"""kio's instants end with the year 9999, and are floats: only whole seconds are exact."""


def messages_of(api: str) -> list[type[ApiMessage]]:
    """The request and the response class of one generated module."""
    module = importlib.import_module(f"towpath.kafka.codec.messages.{api}")
    return [
        cls
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, ApiMessage) and cls is not ApiMessage
    ]


ALL_MESSAGES = [(api, cls) for api in SERVED for cls in messages_of(api)]


def random_message(chance: random.Random, cls: type[Message], version: int, depth: int = 0) -> Any:
    """A message whose fields outside `version` have their defaults."""
    message = cls()
    for field in cls.FIELDS:
        if field.in_version(version) and not (field.is_tagged(version) and chance.random() < 0.5):
            setattr(message, field.name, _value(chance, field, version, depth))
    return message


def _value(chance: random.Random, field: Field, version: int, depth: int) -> Any:
    if field.is_nullable(version) and chance.random() < 0.25:
        return None
    if field.array:
        count = chance.choice((0, 1, 2, 3) if depth < 2 else (0, 1))
        return [_single(chance, field, version, depth + 1) for _ in range(count)]
    return _single(chance, field, version, depth + 1)


def _single(chance: random.Random, field: Field, version: int, depth: int) -> Any:
    if field.struct is not None:
        return random_message(chance, field.struct, version, depth)
    match field.kind:
        case "bool":
            return chance.random() < 0.5
        case "string":
            return "".join(chance.choices("aZ0.-é€😀", k=chance.choice((0, 1, 7, 40, 130))))
        case "bytes" | "records":
            return chance.randbytes(chance.choice((0, 1, 61, 126, 127, 300, 20_000)))
        case "uuid":
            return chance.choice((ZERO_UUID, UUID(int=chance.getrandbits(128))))
        case "float64":
            return chance.random()
        case _:
            return _integer(chance, field)


def _integer(chance: random.Random, field: Field) -> int:
    if field.name.endswith("error_code"):
        return int(chance.choice(list(ErrorCode)))
    if field.name.endswith("_ms") and field.kind == "int64":
        return chance.randint(0, LAST_INSTANT_S) * 1000
    signed = field.kind.startswith("int")
    bits = int(field.kind.removeprefix("u").removeprefix("int"))
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return chance.choice((low, high, 0, chance.randint(low, high)))


def from_kio(entity: Any, cls: type[Message], version: int) -> Any:
    """Our message with the values of kio's."""
    message = cls()
    for field in cls.FIELDS:
        if field.in_version(version):
            name = field.name
            if not hasattr(entity, name):
                name = name.removesuffix("_ms")
            setattr(message, field.name, _plain(getattr(entity, name), field, version))
    return message


def _plain(value: Any, field: Field, version: int) -> Any:
    if isinstance(value, tuple):
        return [_plain(item, field, version) for item in value]
    if value is None:
        if field.kind == "uuid":
            return ZERO_UUID
        return -1 if field.name.endswith("_ms") else None
    if field.struct is not None:
        return from_kio(value, field.struct, version)
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // MILLISECOND
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    return value
