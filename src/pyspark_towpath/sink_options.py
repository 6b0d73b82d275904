"""What a write says by its options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_towpath.connection import CONNECTION_OPTIONS, settings_of
from pyspark_towpath.names import BadOption, by_name
from pyspark_towpath.progress import filesystem_of

if TYPE_CHECKING:
    from towpath.config import Settings

TOPIC = "topic"
COMPRESSION = "compression"
TXN_APP_ID = "txnAppId"
TXN_VERSION = "txnVersion"
CHECKPOINT = "checkpointLocation"
KNOWN = (TOPIC, *CONNECTION_OPTIONS, COMPRESSION, TXN_APP_ID, TXN_VERSION, CHECKPOINT)
SPARKS_OWN = ("queryName",)
"""Options that Spark adds by itself."""
METADATA_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of one write, by their names in `KNOWN`."""

    values: Mapping[str, str]

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Raises BadOption for an option that there is not."""
        return cls(by_name(options, KNOWN, SPARKS_OWN))

    @property
    def topic(self) -> str:
        """The topic to write to."""
        topic = self.values.get(TOPIC, "")
        if not topic:
            raise BadOption(f"option {TOPIC!r} is missing: the topic to write to")
        return topic

    @property
    def compression(self) -> str | None:
        """What the write asks for."""
        return self.values.get(COMPRESSION)

    def settings(self) -> Settings:
        """The settings of the system to write to."""
        return settings_of(self.values)

    def transaction(self) -> tuple[str, int] | None:
        """`(writer, version)` of a batch that must be written once; None if it need not."""
        app, version = self.values.get(TXN_APP_ID), self.values.get(TXN_VERSION)
        if app is None and version is None:
            return None
        if not app or version is None or not version.isascii() or not version.isdigit():
            raise BadOption(
                f"options {TXN_APP_ID!r} and {TXN_VERSION!r} belong together; the version is a "
                "number that grows with each write"
            )
        return _app(app), int(version)

    def query(self) -> tuple[str, bool]:
        """The name under which a streaming query's epochs are counted, and whether somebody chose
        it. Without a choice it is the id in the query's checkpoint: who deletes the checkpoint
        begins a new query."""
        app = self.values.get(TXN_APP_ID)
        if TXN_VERSION in self.values:
            raise BadOption(f"option {TXN_VERSION!r} is for batches; a stream has its epochs")
        if app:
            return _app(app), True
        location = self.values.get(CHECKPOINT)
        if not location:
            raise BadOption(
                f"option {CHECKPOINT!r} is missing: Spark does not tell a sink about a checkpoint "
                f"that is set elsewhere. Set it on writeStream, or name the query by {TXN_APP_ID!r}"
            )
        return f"query:{read_query_id(location)}", False


def _app(name: str) -> str:
    return f"app:{name}"


def read_query_id(location: str) -> str:
    """The id that Spark has written into a checkpoint before the query's first epoch."""
    try:
        identity = json.loads(_read_metadata(location))["id"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadOption(
            f"the query's id cannot be read from the checkpoint {location}: {error}; "
            f"name the query by the option {TXN_APP_ID!r} instead"
        ) from error
    if not isinstance(identity, str) or not identity:
        raise BadOption(f"the checkpoint {location} holds no query id")
    return identity


def _read_metadata(location: str) -> bytes:
    filesystem, path = filesystem_of(location)
    with filesystem.open_input_file(f"{path}/metadata") as file:
        content: bytes = file.read(METADATA_MAX_BYTES)
        return content
