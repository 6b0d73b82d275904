"""What `towpath topics describe` gathers about topics, and how it shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from towpath.cli import log_dirs, offsets
from towpath.cli.client import REQUEST_TIMEOUT_SECONDS, admin_types, explained, reach, result
from towpath.cli.output import table

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

DYNAMIC_TOPIC_CONFIG = 1
"""Kafka's config source of a setting that the topic itself has."""

KIB = 1024


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One partition. None: not known."""

    partition: int
    leader: int | None
    log_start: int
    log_end: int
    size_bytes: int | None
    objects: int | None
    last_write_ms: int | None

    def as_json(self) -> dict[str, object]:
        """The partition for programs."""
        return {
            "partition": self.partition,
            "leader": self.leader,
            "log_start": self.log_start,
            "log_end": self.log_end,
            "size_bytes": self.size_bytes,
            "objects": self.objects,
            "last_write": _iso(self.last_write_ms),
        }

    def cells(self) -> list[str]:
        """The partition for people."""
        size = "-" if self.size_bytes is None else human_size(self.size_bytes)
        return [
            str(self.partition),
            _dash(self.leader),
            str(self.log_start),
            str(self.log_end),
            size,
            _dash(self.objects),
            _dash(_iso(self.last_write_ms)),
        ]


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic with the settings of its own."""

    name: str
    topic_id: str
    configs: dict[str, str]
    partitions: list[PartitionReport]

    def as_json(self) -> dict[str, object]:
        """The topic for programs."""
        return {
            "name": self.name,
            "topic_id": self.topic_id,
            "configs": self.configs,
            "partitions": [partition.as_json() for partition in self.partitions],
        }


def _dash(value: object) -> str:
    return "-" if value is None else str(value)


def _iso(timestamp_ms: int | None) -> str | None:
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def human_size(size_bytes: int) -> str:
    """`512 B`, `1.5 KiB`, `3.0 GiB`."""
    size, units = float(size_bytes), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while size >= KIB and len(units) > 1:
        size /= KIB
        units.pop(0)
    return f"{size_bytes} B" if units[0] == "B" else f"{size:.1f} {units[0]}"


def report(client: AdminClient, bootstrap: str, described: dict[str, Any]) -> list[TopicReport]:
    """Everything about the topics, by name."""
    numbers = {name: [p.id for p in topic.partitions] for name, topic in described.items()}
    every = [(name, number) for name, parts in numbers.items() for number in parts]
    starts = offsets.earliest(client, every)
    ends = offsets.latest(client, every)
    configs = _own_configs(client, list(described))
    usage = _usage(bootstrap, numbers)
    reports = []
    for name, topic in sorted(described.items()):
        partitions = []
        for partition in topic.partitions:
            key = (name, partition.id)
            used = usage.get(key)
            partitions.append(
                PartitionReport(
                    partition.id,
                    None if partition.leader is None else partition.leader.id,
                    starts[key],
                    ends[key],
                    None if used is None else used.size_bytes,
                    None if used is None else used.objects,
                    None if used is None else used.last_write_ms,
                )
            )
        reports.append(TopicReport(name, _uuid(topic.topic_id), configs[name], partitions))
    return reports


def _uuid(topic_id: object) -> str:
    """Kafka's own form of the id: URL-safe base64, where the client has + and /."""
    return str(topic_id).translate(str.maketrans("+/", "-_"))


def _own_configs(client: AdminClient, names: list[str]) -> dict[str, dict[str, str]]:
    """The settings each topic has of its own."""
    types = admin_types()
    own: dict[str, dict[str, str]] = {name: {} for name in names}
    for name in names:
        # One resource per call: the library's map of answers has no stable key to look up by.
        with explained(f"topic {name}"):
            futures = client.describe_configs(
                [types.ConfigResource(types.ResourceType.TOPIC, name)],
                request_timeout=REQUEST_TIMEOUT_SECONDS,
            )
        for future in futures.values():
            entries = result(future, f"topic {name}")
            own[name] = {
                key: entry.value
                for key, entry in sorted(entries.items())
                if entry.source == DYNAMIC_TOPIC_CONFIG
            }
    return own


def _usage(bootstrap: str, numbers: dict[str, list[int]]) -> log_dirs.Usage:
    """Sizes, as far as the broker tells them: another kind of broker may not."""
    try:
        return log_dirs.ask(reach(bootstrap), numbers)
    except log_dirs.LogDirsError:
        return {}


def show(reports: list[TopicReport]) -> None:
    """Print the topics for people."""
    columns = ("partition", "leader", "log start", "log end", "size", "objects", "last write")
    for number, topic in enumerate(reports):
        if number:
            print()
        print(f"topic      {topic.name}")
        print(f"id         {topic.topic_id}")
        shown = ", ".join(f"{key}={value}" for key, value in topic.configs.items())
        print(f"settings   {shown or 'all default'}")
        print()
        table(columns, [partition.cells() for partition in topic.partitions])
