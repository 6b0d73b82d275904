"""Turns input into records: plain lines, lines with keys, JSON lines, or all of it as one value."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

Headers = tuple[tuple[str, bytes | None], ...]


class InputError(Exception):
    """A line cannot be read as a record. The message tells which."""


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How to read the input, and what every record gets."""

    key: bytes | None = None
    key_separator: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    null_value: bytes | None = None
    json_lines: bool = False
    binary: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """One record to send; `place` tells where in the input it was."""

    place: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None
    timestamp_ms: int | None = None

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of the client's `produce`."""
        arguments: dict[str, Any] = {"key": self.key, "value": self.value}
        if self.headers:
            arguments["headers"] = list(self.headers)
        if self.partition is not None:
            arguments["partition"] = self.partition
        if self.timestamp_ms is not None:
            arguments["timestamp"] = self.timestamp_ms
        return arguments


def read_records(source: IO[bytes], form: LineFormat) -> Iterator[Record]:
    """The records of the input, as they arrive; InputError at a line that cannot be read."""
    if form.binary:
        yield Record("input", form.key, source.read(), form.headers, form.partition)
        return
    for number, line in enumerate(iter(source.readline, b""), 1):
        stripped = line.removesuffix(b"\n").removesuffix(b"\r")
        place = f"line {number}"
        if form.json_lines:
            if stripped.strip():
                yield _from_json(stripped, place, form)
        else:
            yield _from_line(stripped, place, form)


def _from_line(line: bytes, place: str, form: LineFormat) -> Record:
    key, value = form.key, line
    if form.key_separator is not None:
        before, found, after = line.partition(form.key_separator)
        if not found:
            raise InputError(f"{place}: no key separator '{form.key_separator.decode()}'")
        key, value = before, after
    null = form.null_value is not None and value == form.null_value
    return Record(place, key, None if null else value, form.headers, form.partition)


def _from_json(line: bytes, place: str, form: LineFormat) -> Record:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise InputError(f"{place}: not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InputError(f"{place}: not a JSON object")
    known = {"topic", "offset", "key", "value", "headers", "partition", "timestamp"}
    unknown = sorted(fields.keys() - known)
    if unknown:
        raise InputError(f"{place}: unknown field '{unknown[0]}'")
    return Record(
        place,
        _bytes(fields["key"], place) if "key" in fields else form.key,
        _bytes(fields.get("value"), place),
        form.headers + _headers(fields.get("headers"), place),
        _integer(fields, "partition", place, form.partition),
        _integer(fields, "timestamp", place, None),
    )


def _bytes(value: object, place: str) -> bytes | None:
    """Text as UTF-8, `{"base64": ...}` as bytes, any other JSON as JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"base64"}:
        try:
            return base64.b64decode(str(value["base64"]), validate=True)
        except binascii.Error as error:
            raise InputError(f"{place}: not base64: {error}") from error
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _headers(headers: object, place: str) -> Headers:
    """A mapping, or a list of [name, value] where a name occurs twice."""
    if headers is None:
        return ()
    if isinstance(headers, dict):
        return tuple((name, _bytes(value, place)) for name, value in headers.items())
    if isinstance(headers, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in headers
    ):
        return tuple((name, _bytes(value, place)) for name, value in headers)
    raise InputError(f"{place}: headers must be an object or a list of [name, value]")


def _integer(fields: dict[str, Any], name: str, place: str, default: int | None) -> int | None:
    value = fields.get(name, default)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise InputError(f"{place}: {name} must be a number from 0")
    return value
