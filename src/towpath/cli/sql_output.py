"""Answers of queries: as a table, CSV or JSON. Bytes are shown as text where they are text."""

from __future__ import annotations

import base64
import csv
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from towpath.cli.errors import say
from towpath.cli.plain_table import table

if TYPE_CHECKING:
    from towpath.query.answer import Answer
    from towpath.query.rows import Row

    Rows = Answer[list[Row]]

TABLE_ROWS_MAX = 10_000
"""A table's columns are as wide as their widest cell, so it is held as a whole."""
HEX_PREFIX = "0x"


class SqlOutput(StrEnum):
    """The forms of an answer."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def show(answer: Rows, output: SqlOutput) -> int:
    """Print the answer; how many rows."""
    return {SqlOutput.TABLE: _table, SqlOutput.CSV: _csv, SqlOutput.JSON: _json}[output](answer)


def _table(answer: Rows) -> int:
    names = answer.columns
    cells: list[list[str]] = []
    count = 0
    for row in _rows(answer):
        count += 1
        if count <= TABLE_ROWS_MAX:
            cells.append([text(value) for value in row])
    table(names, cells)
    if count > TABLE_ROWS_MAX:
        say(f"towpath: the first {TABLE_ROWS_MAX} of {count} rows; --output csv shows all")
    return count


def _csv(answer: Rows) -> int:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.columns)
    count = 0
    for row in _rows(answer):
        writer.writerow(["" if value is None else text(value) for value in row])
        count += 1
    return count


def _json(answer: Rows) -> int:
    """An array with an object per row, a line each."""
    names = answer.columns
    count = 0
    print("[", end="")
    for row in _rows(answer):
        fields = {name: _json_value(value) for name, value in zip(names, row, strict=True)}
        print(",\n " if count else "\n ", json.dumps(fields, ensure_ascii=False), sep="", end="")
        count += 1
    print("\n]" if count else "]")
    return count


def _rows(answer: Rows) -> Iterator[Row]:
    for rows in answer:
        yield from rows


def text(value: Any) -> str:
    """A value for people."""
    if value is None:
        return "NULL"
    plain = _plain(value, lambda raw: HEX_PREFIX + raw.hex())
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _json_value(value: Any) -> Any:
    """As `towpath consume --output json` has it."""
    return _plain(value, lambda raw: {"base64": base64.b64encode(raw).decode()})


def _plain(value: Any, binary: Callable[[bytes], Any]) -> Any:
    """A value as JSON has it: times in ISO 8601, bytes as text, or else as `binary` says."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return binary(value)
    if isinstance(value, Mapping):
        return {key: _plain(item, binary) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, binary) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    for kind, convert in _CONVERSIONS:
        if isinstance(value, kind):
            return convert(value)
    return value


def _moment(value: datetime) -> str:
    return value.isoformat(sep="T", timespec="milliseconds").replace("+00:00", "Z")


_CONVERSIONS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (datetime, _moment),
    (date, date.isoformat),
    (time, time.isoformat),
    (timedelta, str),
    (Decimal, str),
)
