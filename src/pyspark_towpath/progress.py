"""Where a streaming query is: offsets by partition, as Spark keeps them in its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_towpath.names import BadOption

TOPIC = "topic"
TOPIC_ID = "topicId"
OFFSETS = "offsets"

PLANNED = "offsets"
"""Where a checkpoint keeps the ends of micro-batches before they run."""
DONE = "commits"
"""Where it notes those that are finished."""


@dataclass(frozen=True)
class Progress:
    """The next offset of every partition. The topic's id tells a topic from a later one of the same
    name, whose offsets mean something else."""

    topic: str
    topic_id: str
    offsets: Mapping[int, int]

    def to_dict(self) -> dict[str, Any]:
        """As Spark keeps it."""
        offsets = {str(number): offset for number, offset in sorted(self.offsets.items())}
        return {TOPIC: self.topic, TOPIC_ID: self.topic_id, OFFSETS: offsets}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Progress:
        """The inverse of `to_dict`."""
        offsets = {int(number): offset for number, offset in found[OFFSETS].items()}
        return cls(found[TOPIC], found[TOPIC_ID], offsets)


def limited(start: Mapping[int, int], end: Mapping[int, int], limit: int) -> dict[int, int]:
    """Ends that are at most `limit` offsets after the starts, all together; each partition gets its
    share of what waits, and at least one of them goes on if anything waits."""
    waiting = {number: max(0, end[number] - start.get(number, 0)) for number in end}
    total = sum(waiting.values())
    if total <= limit:
        return dict(end)
    shares = {number: limit * count // total for number, count in waiting.items()}
    left = limit - sum(shares.values())
    # What the division leaves goes to those that it took most from.
    by_remainder = sorted(waiting, key=lambda number: (-(limit * waiting[number] % total), number))
    for number in by_remainder[:left]:
        shares[number] += 1
    return {number: start.get(number, 0) + shares[number] for number in end}


def last_in_checkpoint(location: str, topic: str) -> Progress | None:
    """The end of the last micro-batch that the query has planned; None if there was none yet.

    Spark asks a Python source how far there is to go, and does not say where it is. Without that no
    limit could be kept when a query starts again.
    """
    filesystem, path = filesystem_of(location)
    planned = _numbers_in(filesystem, f"{path}/{PLANNED}")
    return _progress_in(filesystem, path, max(planned), topic) if planned else None


def last_done_in_checkpoint(location: str, topic: str) -> Progress | None:
    """The end of the last micro-batch that the query has finished; None if there was none yet."""
    filesystem, path = filesystem_of(location)
    done = _numbers_in(filesystem, f"{path}/{DONE}") & _numbers_in(filesystem, f"{path}/{PLANNED}")
    return _progress_in(filesystem, path, max(done), topic) if done else None


def _numbers_in(filesystem: Any, directory: str) -> set[int]:
    """The numbers of the micro-batches that a part of the checkpoint tells of."""
    from pyarrow import fs

    files = filesystem.get_file_info(fs.FileSelector(directory, allow_not_found=True))
    return {int(file.base_name) for file in files if file.base_name.isdigit()}


def _progress_in(filesystem: Any, path: str, number: int, topic: str) -> Progress | None:
    """Where the topic is at the end of a micro-batch."""
    with filesystem.open_input_file(f"{path}/{PLANNED}/{number}") as opened:
        lines = opened.read().decode().splitlines()
    found = [progress for line in lines if (progress := _parse(line, topic)) is not None]
    if len(found) > 1:
        raise BadOption(
            f"the query reads topic {topic!r} {len(found)} times: its positions cannot be told "
            "apart in the checkpoint, which maxOffsetsPerTrigger and groupId need"
        )
    return found[0] if found else None


def filesystem_of(location: str) -> tuple[Any, str]:
    """The file system and the path in it of a checkpoint, as Spark is told of it."""
    from pyarrow import fs

    if "://" in location:
        uri = location.replace("s3a://", "s3://", 1)
        filesystem, path = fs.FileSystem.from_uri(uri)
        return filesystem, path.rstrip("/")
    return fs.LocalFileSystem(), location.removeprefix("file:").rstrip("/")


def _parse(line: str, topic: str) -> Progress | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get(TOPIC) != topic or TOPIC_ID not in found:
        return None
    return Progress.from_dict(found)
