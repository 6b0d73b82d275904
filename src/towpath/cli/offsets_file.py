"""Offsets in a file, for `towpath groups reset --from-file`.

CSV as Kafka's own tool writes and reads it, `topic,partition,offset` or with the group in front, or
JSON as `towpath groups reset --output json` prints it: a list of objects with these names.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towpath.cli.errors import CliError

if TYPE_CHECKING:
    from towpath.cli.offsets import TopicPartition

STDIN = "-"
FILE_MAX_BYTES = 64 << 20
HEADER = ["topic", "partition", "offset"]


def load(path: str, group: str) -> dict[TopicPartition, int]:
    """The group's offsets in a file. CliError names the line that cannot be read."""
    try:
        text = sys.stdin.read() if path == STDIN else _content(Path(path))
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"cannot read {path}: {_reason(error)}") from error
    offsets = parse(text, group, path)
    if not offsets:
        raise CliError(f"there are no offsets of group {group} in {path}")
    return offsets


def _content(path: Path) -> str:
    size_bytes = path.stat().st_size
    if size_bytes > FILE_MAX_BYTES:
        raise CliError(f"{path} has {size_bytes} bytes, more than {FILE_MAX_BYTES}")
    return path.read_text(encoding="utf-8")


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def parse(text: str, group: str, name: str) -> dict[TopicPartition, int]:
    """The group's offsets in a text; `name` is that of its file."""
    if text.lstrip().startswith(("[", "{")):
        return _parse_json(text, name)
    offsets: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[-3:] == HEADER:
            continue
        if len(cells) == len(HEADER) + 1:
            owner, *cells = cells
            if owner != group:
                continue
        if len(cells) != len(HEADER):
            raise CliError(f"line {number} of {name} is not topic,partition,offset")
        _add(offsets, cells[0], cells[1], cells[2], f"line {number} of {name}")
    return offsets


def _parse_json(text: str, name: str) -> dict[TopicPartition, int]:
    try:
        items = json.loads(text)
    except ValueError as error:
        raise CliError(f"{name} is not JSON: {error}") from error
    if not isinstance(items, list):
        raise CliError(f"{name} is not a JSON list of objects with topic, partition and offset")
    offsets: dict[TopicPartition, int] = {}
    for number, item in enumerate(items, 1):
        place = f"item {number} of {name}"
        if not isinstance(item, dict) or not all(key in item for key in HEADER):
            raise CliError(f"{place} has no topic, partition and offset")
        _add(offsets, item["topic"], item["partition"], item["offset"], place)
    return offsets


def _add(
    offsets: dict[TopicPartition, int], topic: Any, partition: Any, offset: Any, place: str
) -> None:
    try:
        if isinstance(partition, (bool, float)) or isinstance(offset, (bool, float)):
            raise ValueError
        key, value = (str(topic), int(partition)), int(offset)
        if not topic or key[1] < 0 or value < 0:
            raise ValueError
    except (TypeError, ValueError):
        raise CliError(
            f"{place} has no valid topic, partition and offset: {topic}, {partition}, {offset}"
        ) from None
    if key in offsets:
        raise CliError(f"{place} names {topic} partition {partition} a second time")
    offsets[key] = value
