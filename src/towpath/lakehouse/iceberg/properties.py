"""The properties our tables carry: whose they are, and how their metadata stays small."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table import TableProperties

from towpath.lakehouse.iceberg import marks
from towpath.lakehouse.tables import ForeignTable, SupersededTable, TopicRef

TOPIC = "dray.topic"
CLUSTER_ID = "dray.cluster_id"
SCHEMA_VERSION = "dray.schema_version"
TOPIC_ID = "dray.topic_id"
TOPIC_NUMBER = "dray.topic_number"

CURRENT_SCHEMA_VERSION = "1"
PREVIOUS_METADATA_FILES = 10

UPKEEP: Mapping[str, str] = {
    TableProperties.FORMAT_VERSION: "2",
    # Ours never repeat a commit whatever this says; it is for pyiceberg in others' hands.
    TableProperties.COMMIT_NUM_RETRIES: "0",
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    TableProperties.MANIFEST_MIN_MERGE_COUNT: "20",
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: str(PREVIOUS_METADATA_FILES),
    # The log serves fetches from the same files: no Spark procedure may delete them.
    "gc.enabled": "false",
}


def creation_properties(topic: TopicRef, cluster_id: str) -> dict[str, str]:
    """What a new table gets."""
    return {
        **UPKEEP,
        TOPIC: topic.name,
        CLUSTER_ID: cluster_id,
        SCHEMA_VERSION: CURRENT_SCHEMA_VERSION,
        TOPIC_ID: topic.topic_id,
        TOPIC_NUMBER: str(topic.number),
        marks.PARTITIONS: marks.encode_marks({}),
    }


def check_owner(
    properties: Mapping[str, str], identifier: str, topic: TopicRef, cluster_id: str
) -> None:
    """Raise ForeignTable unless the table is the topic's, SupersededTable if it was that of an
    earlier topic of the same name."""
    if properties.get(CLUSTER_ID) != cluster_id:
        owner = properties.get(CLUSTER_ID)
        whose = f"of cluster {owner}" if owner else "that Towpath did not make"
        raise ForeignTable(f"{identifier} is a table {whose}; it is not touched")
    if properties.get(SCHEMA_VERSION) != CURRENT_SCHEMA_VERSION:
        version = properties.get(SCHEMA_VERSION)
        raise ForeignTable(f"{identifier} has schema version {version}, which is not known here")
    if properties.get(TOPIC) != topic.name:
        raise ForeignTable(f"{identifier} belongs to topic {properties.get(TOPIC)!r}")
    number = topic_number(properties)
    if number is None or number > topic.number:
        raise ForeignTable(f"{identifier} belongs to topic number {number}, not {topic.number}")
    if number < topic.number:
        raise SupersededTable(identifier, number)


def topic_number(properties: Mapping[str, str]) -> int | None:
    """The number of the topic a table belongs to; None if it does not tell."""
    text = properties.get(TOPIC_NUMBER, "")
    return int(text) if text.isdecimal() else None
