"""The table of topic settings: everything that a topic may be configured with.

The names, types, ranges and defaults are those of Apache Kafka 4.1. Settings of Kafka's own storage
(segments, flushing, indexes, replicas) have nothing to act on here; they are accepted and validated
so that tools which set them work, and their documentation says that they have no effect.

`compression.type` accepts each of Kafka's values and changes nothing: batches are stored with the
compression their producer chose. Consumers read the same records either way, while refusing the
value would break tools that always set it.

Two settings are Towpath's own and begin with its name: they declare what values are, so that they
become columns of the topic's table (`towpath.typed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from towpath.errors import InvalidConfig
from towpath.topics.values import (
    Between,
    Check,
    ConfigType,
    LevelOr,
    NotLonger,
    OneOf,
    Value,
    must_be_false,
    parse,
    throttled_replicas,
    to_text,
)
from towpath.typed import declaration
from towpath.typed.types import InvalidSchema

LONG_MAX = (1 << 63) - 1
VALUE_SCHEMA_CHARS_MAX = 256 << 10
NO_EFFECT = " Accepted for compatibility; it has no effect on this broker."


@dataclass(frozen=True, slots=True)
class Setting:
    """One topic setting. `broker_name` is the broker-wide setting it falls back to."""

    name: str
    type: ConfigType
    default: str
    doc: str
    broker_name: str | None = None
    check: Check | None = None
    has_effect: bool = True

    def parse(self, text: str) -> Value:
        """The typed value of a text; raises InvalidConfig with Kafka's message."""
        value = parse(self.name, text, self.type)
        if self.check is not None:
            self.check(self.name, value)
        return value

    @property
    def documentation(self) -> str:
        """The text that DescribeConfigs shows."""
        return self.doc if self.has_effect else self.doc + NO_EFFECT


def _inert(
    name: str,
    kind: ConfigType,
    default: str,
    doc: str,
    broker_name: str | None = None,
    check: Check | None = None,
) -> Setting:
    return Setting(name, kind, default, doc, broker_name, check, has_effect=False)


_BOOL, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST

_ROWS = (
    Setting(
        "cleanup.policy", _LIST, "delete",
        "What happens to old records: 'delete' removes them by time or size, 'compact' keeps the "
        "newest record of every key; both may be given.",
        "log.cleanup.policy", OneOf(("compact", "delete")),
    ),
    Setting(
        "retention.ms", _LONG, "604800000",
        "How long records are kept under the 'delete' policy, in milliseconds; -1 keeps them "
        "for ever.",
        "log.retention.ms", Between(-1),
    ),
    Setting(
        "retention.bytes", _LONG, "-1",
        "How many bytes of records a partition keeps under the 'delete' policy; -1 sets no limit.",
        "log.retention.bytes",
    ),
    Setting(
        "max.message.bytes", _INT, "1048588",
        "The largest record batch, after compression, that the topic accepts.",
        "message.max.bytes", Between(0),
    ),
    Setting(
        "message.timestamp.type", _STRING, "CreateTime",
        "Whether a record carries the time of its creation or of its append.",
        "log.message.timestamp.type", OneOf(("CreateTime", "LogAppendTime")),
    ),
    Setting(
        "message.timestamp.before.max.ms", _LONG, str(LONG_MAX),
        "How far a CreateTime timestamp may lie behind the broker's clock.",
        "log.message.timestamp.before.max.ms", Between(0),
    ),
    Setting(
        "message.timestamp.after.max.ms", _LONG, "3600000",
        "How far a CreateTime timestamp may lie ahead of the broker's clock.",
        "log.message.timestamp.after.max.ms", Between(0),
    ),
    _inert(
        "compression.type", _STRING, "producer",
        "The final compression of a topic. Batches are always stored as their producer sent them.",
        "compression.type",
        OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    ),
    _inert(
        "compression.gzip.level", _INT, "-1", "The gzip level of compression.type.",
        "compression.gzip.level", LevelOr(-1, 1, 9),
    ),
    _inert(
        "compression.lz4.level", _INT, "9", "The lz4 level of compression.type.",
        "compression.lz4.level", Between(1, 17),
    ),
    _inert(
        "compression.zstd.level", _INT, "3", "The zstd level of compression.type.",
        "compression.zstd.level", Between(-131072, 22),
    ),
    _inert(
        "min.insync.replicas", _INT, "1",
        "How many replicas must confirm a write. An acknowledged write is durable in object "
        "storage; there are no replicas.",
        "min.insync.replicas", Between(1),
    ),
    _inert(
        "unclean.leader.election.enable", _BOOL, "false",
        "Whether a replica that lags may become leader.", "unclean.leader.election.enable",
    ),
    Setting(
        "delete.retention.ms", _LONG, "86400000",
        "How long a compacted topic keeps the markers of deleted keys.",
        "log.cleaner.delete.retention.ms", Between(0),
    ),
    Setting(
        "min.compaction.lag.ms", _LONG, "0", "How long a record stays uncompacted at least.",
        "log.cleaner.min.compaction.lag.ms", Between(0),
    ),
    Setting(
        "max.compaction.lag.ms", _LONG, str(LONG_MAX),
        "How long a record may stay uncompacted.",
        "log.cleaner.max.compaction.lag.ms", Between(1),
    ),
    Setting(
        "min.cleanable.dirty.ratio", _DOUBLE, "0.5",
        "The share of uncompacted records at which compaction starts.",
        "log.cleaner.min.cleanable.ratio", Between(0, 1),
    ),
    _inert(
        "segment.bytes", _INT, "1073741824", "The size of a log segment.",
        "log.segment.bytes", Between(1048576),
    ),
    _inert(
        "segment.ms", _LONG, "604800000", "The age at which a log segment is closed.",
        "log.roll.ms", Between(1),
    ),
    _inert(
        "segment.jitter.ms", _LONG, "0", "The random part of segment.ms.",
        "log.roll.jitter.ms", Between(0),
    ),
    _inert(
        "segment.index.bytes", _INT, "10485760", "The size of a segment's index.",
        "log.index.size.max.bytes", Between(4),
    ),
    _inert(
        "index.interval.bytes", _INT, "4096", "How often a segment's index gets an entry.",
        "log.index.interval.bytes", Between(0),
    ),
    _inert(
        "flush.messages", _LONG, str(LONG_MAX),
        "After how many records the log is synced. Every acknowledged record is durable.",
        "log.flush.interval.messages", Between(1),
    ),
    _inert(
        "flush.ms", _LONG, str(LONG_MAX),
        "After what time the log is synced. Every acknowledged record is durable.",
        "log.flush.interval.ms", Between(0),
    ),
    _inert(
        "file.delete.delay.ms", _LONG, "60000", "How long a removed file stays on disk.",
        "log.segment.delete.delay.ms", Between(0),
    ),
    _inert(
        "preallocate", _BOOL, "false", "Whether segment files are allocated in advance.",
        "log.preallocate",
    ),
    _inert(
        "remote.storage.enable", _BOOL, "false",
        "Kafka's tiered storage; only 'false' is accepted, since all data is in object storage.",
        None, must_be_false,
    ),
    _inert(
        "remote.log.copy.disable", _BOOL, "false", "Whether tiered copying is paused.",
    ),
    _inert(
        "remote.log.delete.on.disable", _BOOL, "false",
        "Whether switching tiered storage off deletes its data.",
    ),
    _inert(
        "local.retention.ms", _LONG, "-2", "How long tiered records stay on local disk.",
        "log.local.retention.ms", Between(-2),
    ),
    _inert(
        "local.retention.bytes", _LONG, "-2", "How many tiered bytes stay on local disk.",
        "log.local.retention.bytes", Between(-2),
    ),
    _inert(
        "leader.replication.throttled.replicas", _LIST, "",
        "Replicas whose replication is throttled at the leader.", None, throttled_replicas,
    ),
    _inert(
        "follower.replication.throttled.replicas", _LIST, "",
        "Replicas whose replication is throttled at the follower.", None, throttled_replicas,
    ),
    Setting(
        declaration.FORMAT, _STRING, declaration.NONE,
        "What values are: 'json', 'avro', or 'avro-registry' for Avro behind a registry's prefix. "
        "They become columns of the topic's table, beside the bytes.",
        None, OneOf(declaration.FORMATS),
    ),
    Setting(
        declaration.SCHEMA, _STRING, "",
        "The schema of the values: for 'json' a JSON Schema or 'infer', for 'avro' an Avro schema, "
        "for 'avro-registry' an object of Avro schemas by id.",
        None, NotLonger(VALUE_SCHEMA_CHARS_MAX),
    ),
)  # fmt: skip

SETTINGS: Mapping[str, Setting] = {row.name: row for row in sorted(_ROWS, key=lambda row: row.name)}
"""Every topic setting by name, in the order of names."""


def setting(name: str) -> Setting:
    """The setting of this name; raises InvalidConfig as Kafka does for an unknown one."""
    found = SETTINGS.get(name)
    if found is None:
        raise InvalidConfig(f"Unknown topic config name: {name}")
    return found


def validate(overrides: Mapping[str, str | None]) -> dict[str, str]:
    """The overrides in canonical form; raises InvalidConfig if one of them, or their combination,
    is not acceptable."""
    nulls = [name for name, value in overrides.items() if value is None]
    if nulls:
        raise InvalidConfig(f"Null value not supported for topic configs: {','.join(nulls)}")
    parsed = {
        name: setting(name).parse(text) for name, text in overrides.items() if text is not None
    }
    _check_compaction_lags(parsed)
    _check_declaration(parsed)
    return {name: to_text(value) for name, value in parsed.items()}


def _check_compaction_lags(parsed: Mapping[str, Value]) -> None:
    least, most = "min.compaction.lag.ms", "max.compaction.lag.ms"
    least_ms = parsed.get(least, int(SETTINGS[least].default))
    most_ms = parsed.get(most, int(SETTINGS[most].default))
    assert isinstance(least_ms, int)
    assert isinstance(most_ms, int)
    if least_ms > most_ms:
        raise InvalidConfig(
            f"conflict topic config setting {least} ({least_ms}) > {most} ({most_ms})"
        )


def _check_declaration(parsed: Mapping[str, Value]) -> None:
    format_name = str(parsed.get(declaration.FORMAT, declaration.NONE))
    schema = str(parsed.get(declaration.SCHEMA, ""))
    try:
        declaration.declare(format_name, schema)
    except InvalidSchema as error:
        raise InvalidConfig(
            f"Invalid value for configuration {declaration.SCHEMA} "
            f"({declaration.FORMAT}={format_name}): {error}"
        ) from error
