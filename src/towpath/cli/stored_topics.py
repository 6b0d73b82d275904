"""Topics and where their logs end, from the metadata store itself: no broker has to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.cli.errors import CliError
from towpath.log.interface import Bounds
from towpath.metadata.keys.topics import TopicRecord, stream_id
from towpath.metadata.store import StoreUnavailable
from towpath.reading.index import at_one_moment
from towpath.typed.declaration import Declaration, declared

if TYPE_CHECKING:
    from towpath.reading.index import IndexReader


@dataclass(frozen=True, slots=True)
class StoredTopic:
    """A topic as the metadata store has it."""

    topic_id: str
    """Tells it apart from others that had or have the same name, here or in another cluster."""
    partitions: Mapping[int, Bounds] = field(hash=False)
    declaration: Declaration | None = None
    """What it says that its values are."""


def read_topics(path: Path, names: Iterable[str]) -> dict[str, StoredTopic]:
    """Those of the topics that exist, by name. Raises CliError if the store cannot be read."""
    wanted = sorted(set(names))

    def work(reader: IndexReader) -> dict[str, StoredTopic]:
        found = ((name, reader.topic(name)) for name in wanted)
        return {name: _topic(reader, record) for name, record in found if record is not None}

    try:
        return at_one_moment(path, work)
    except StoreUnavailable as error:
        raise CliError(str(error)) from error


def _topic(reader: IndexReader, record: TopicRecord) -> StoredTopic:
    stream_ids = [stream_id(record.number, i) for i in range(record.partitions)]
    bounds = dict(enumerate(reader.bounds(stream_ids)))
    return StoredTopic(str(record.topic_id), bounds, declared(record.config))
