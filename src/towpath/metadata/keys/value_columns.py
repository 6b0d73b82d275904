"""The key of a topic's typed columns: which were ever in its table, and under which ids.

It lies beneath the topic's first stream, so it goes with the topic.
"""

from __future__ import annotations

from towpath.metadata.keys import json_value
from towpath.metadata.keys.streams import stream_prefix
from towpath.metadata.keys.topics import stream_id
from towpath.typed.ids import KnownColumns
from towpath.typed.types import fields_from_json, fields_to_json


def value_columns(topic_number: int) -> str:
    """The record of a topic's typed columns. It is only changed by compare-and-set."""
    return f"{stream_prefix(stream_id(topic_number, 0))}value-columns"


def encode(known: KnownColumns) -> bytes:
    """The columns as they are stored."""
    return json_value.encode(
        1,
        {
            "nextId": known.next_id,
            "columns": fields_to_json(known.columns),
            "inferred": fields_to_json(known.inferred),
        },
    )


def decode(value: bytes) -> KnownColumns:
    """The inverse of `encode`."""
    fields = json_value.decode(value, 1, "value columns")
    try:
        return KnownColumns(
            fields["nextId"],
            fields_from_json(fields["columns"]),
            fields_from_json(fields["inferred"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise json_value.UnknownValueVersion(f"damaged value columns: {error!r}") from error
