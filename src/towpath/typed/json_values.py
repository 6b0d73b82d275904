"""Values in JSON, checked against a shape, as Python values that Arrow takes for the columns."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any, Final, NoReturn

from towpath.typed.misfit import Misfit, described
from towpath.typed.shapes import Kind, Shape

Convert = Callable[[Any], Any]
"""A parsed value as Arrow takes it; raises Misfit."""

INT64: Final = 1 << 63
INT32: Final = 1 << 31
FLOAT32_MAX: Final = 3.4028234663852886e38
EXACT_FLOAT: Final = 1 << 53
"""Whole numbers up to here are the same as floats."""

_DATE_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?\Z", re.ASCII)


def _no_constant(text: str) -> NoReturn:
    raise Misfit(f"{text} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_no_constant)


def parse(value: bytes) -> dict[str, Any]:
    """The object that a value is. Raises Misfit."""
    try:
        found = _decoder.decode(str(value, "utf-8"))
    except UnicodeDecodeError as error:
        raise Misfit(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise Misfit(f"not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise Misfit("not JSON that can be read: it is nested too deep") from None
    if not isinstance(found, dict):
        raise Misfit(f"{described(found)} is no object")
    return found


def converter(shape: Shape, unfamiliar: Callable[[], None] | None = None) -> Convert:
    """What makes values of this shape ready for Arrow. `unfamiliar` is called when an object has a
    member that its shape does not know."""
    convert = _inner(shape, unfamiliar)
    if not shape.nullable:
        return convert
    return lambda value: None if value is None else convert(value)


def _inner(shape: Shape, unfamiliar: Callable[[], None] | None) -> Convert:
    if shape.kind is Kind.OBJECT:
        return _object(shape, unfamiliar)
    if shape.kind is Kind.ARRAY:
        return _array(shape, unfamiliar)
    if shape.kind is Kind.MAP:
        return _map(shape, unfamiliar)
    return _SCALARS[shape.kind]


def _object(shape: Shape, unfamiliar: Callable[[], None] | None) -> Convert:
    members = [
        (one.source, one.name, one.required, converter(one.shape, unfamiliar))
        for one in shape.members
    ]
    known = frozenset(one.source for one in shape.members)
    missing = object()

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _other(value, "an object")
        found = {}
        for source, name, required, inner in members:
            member = value.get(source, missing)
            if member is missing:
                if required:
                    raise Misfit("is required and missing").inside(source)
                continue
            try:
                found[name] = inner(member)
            except Misfit as misfit:
                raise misfit.inside(source) from None
        if not value.keys() <= known:
            if shape.is_closed:
                raise Misfit("is not in the schema").inside(min(value.keys() - known))
            if unfamiliar is not None:
                unfamiliar()
        return found

    return convert


def _array(shape: Shape, unfamiliar: Callable[[], None] | None) -> Convert:
    assert shape.item is not None
    inner = converter(shape.item, unfamiliar)

    def convert(value: Any) -> Any:
        if type(value) is not list:
            raise _other(value, "an array")
        found = []
        for at, item in enumerate(value):
            try:
                found.append(inner(item))
            except Misfit as misfit:
                raise misfit.inside(str(at)) from None
        return found

    return convert


def _map(shape: Shape, unfamiliar: Callable[[], None] | None) -> Convert:
    assert shape.item is not None
    inner = converter(shape.item, unfamiliar)

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _other(value, "an object")
        found = []
        for name, member in value.items():
            try:
                found.append((name, inner(member)))
            except Misfit as misfit:
                raise misfit.inside(name) from None
        return found

    return convert


def _boolean(value: Any) -> Any:
    if type(value) is not bool:
        raise _other(value, "true or false")
    return value


def _integer(value: Any, limit: int, what: str) -> Any:
    if type(value) is float and value.is_integer() and abs(value) <= EXACT_FLOAT:
        value = int(value)
    if type(value) is not int:
        raise _other(value, what)
    if not -limit <= value < limit:
        raise Misfit(f"{described(value)} has more than {limit.bit_length()} bits")
    return value


def _int(value: Any) -> Any:
    return _integer(value, INT32, "an integer")


def _long(value: Any) -> Any:
    return _integer(value, INT64, "an integer")


def _double(value: Any) -> Any:
    if type(value) is int:
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
    if type(value) is not float:
        raise _other(value, "a number")
    if math.isinf(value):
        raise Misfit("is larger than any number")
    return value


def _float(value: Any) -> Any:
    found = _double(value)
    if abs(found) > FLOAT32_MAX:
        raise Misfit(f"{described(value)} is larger than any 32-bit number")
    return found


def _string(value: Any) -> Any:
    if type(value) is not str:
        raise _other(value, "a string")
    return value


def _timestamptz(value: Any) -> Any:
    if type(value) is str and _DATE_TIME.match(value):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            pass
    raise _other(value, "a date-time with its offset, as 2026-01-31T12:00:00Z")


def _date(value: Any) -> Any:
    if type(value) is str and _DATE.match(value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise _other(value, "a date, as 2026-01-31")


def _time(value: Any) -> Any:
    if type(value) is str and _TIME.match(value):
        try:
            return time.fromisoformat(value)
        except ValueError:
            pass
    raise _other(value, "a time of day, as 12:00:00")


def _binary(value: Any) -> Any:
    try:
        return base64.b64decode(_string(value), validate=True)
    except (binascii.Error, ValueError):
        raise _other(value, "base64") from None


def _text(value: Any) -> Any:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _other(value: Any, wanted: str) -> Misfit:
    return Misfit(f"{described(value)} is not {wanted}")


_SCALARS: dict[Kind, Convert] = {
    Kind.BOOLEAN: _boolean,
    Kind.INT: _int,
    Kind.LONG: _long,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _double,
    Kind.STRING: _string,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMPTZ: _timestamptz,
    Kind.BINARY: _binary,
    Kind.TEXT: _text,
}
