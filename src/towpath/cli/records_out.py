"""Writes records for people and programs: raw values, columns, or JSON lines."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Message

NO_TIMESTAMP = 0
"""The client's timestamp type of a record without one."""

TABLE_HEADER = f"{'partition':>9}  {'offset':>10}  {'timestamp':<24}  {'key':<20}  value\n"


class RecordOutput(StrEnum):
    """The forms of a record."""

    VALUE = "value"
    TABLE = "table"
    JSON = "json"


def encode(message: Message, output: RecordOutput) -> bytes:
    """One record with its line end."""
    if output is RecordOutput.VALUE:
        return (_raw(message.value()) or b"") + b"\n"
    if output is RecordOutput.JSON:
        return json.dumps(as_json(message), ensure_ascii=False).encode() + b"\n"
    return _columns(message).encode() + b"\n"


def as_json(message: Message) -> dict[str, object]:
    """The record; bytes that are not UTF-8 become `{"base64": ...}`."""
    kind, timestamp_ms = message.timestamp()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": None if kind == NO_TIMESTAMP else timestamp_ms,
        "key": _json_bytes(_raw(message.key())),
        "value": _json_bytes(_raw(message.value())),
        "headers": [[pair[0], _json_bytes(_raw(pair[1]))] for pair in message.headers() or []],
    }


def _raw(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _json_bytes(value: bytes | None) -> object:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _columns(message: Message) -> str:
    kind, timestamp_ms = message.timestamp()
    moment = "-" if kind == NO_TIMESTAMP else _iso(timestamp_ms)
    key, value = _printable(_raw(message.key())), _printable(_raw(message.value()))
    return f"{message.partition():>9}  {message.offset():>10}  {moment:<24}  {key:<20}  {value}"


def _iso(timestamp_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"@{timestamp_ms}"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _printable(value: bytes | None) -> str:
    """Text on one line: control characters and bytes that are not UTF-8 are escaped."""
    if value is None:
        return "null"
    text = value.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
