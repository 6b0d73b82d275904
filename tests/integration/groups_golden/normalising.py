"""Replaces what differs from run to run by names in order of appearance, and sorts what has no
order of its own, so that two runs of a sequence give the same JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.integration.groups_golden.rendering import Json

UUID_TEXT = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
MEMBER_ID = re.compile(rf"(?P<prefix>.*)-{UUID_TEXT}|{UUID_TEXT}|[A-Za-z0-9_-]{{22}}", re.DOTALL)
"""`<client or instance id>-<uuid>` of the classic protocol, or a bare id that the broker made up
for ConsumerGroupHeartbeat v0: Kafka's own 22 characters, or any uuid."""
MEMBER_FIELDS = {"member_id", "leader"}
WHERE_FIELDS = {"node_id", "host", "port"}
UNSORTED = {
    ("JoinGroup", "members"),
    ("DescribeGroups", "members"),
    ("ConsumerGroupDescribe", "members"),
    ("ConsumerGroupDescribe", "topic_partitions"),
    ("ConsumerGroupDescribe", "partitions"),
    ("ConsumerGroupHeartbeat", "topic_partitions"),
    ("ConsumerGroupHeartbeat", "partitions"),
    ("DeleteGroups", "results"),
    ("ListGroups", "groups"),
    ("OffsetFetch", "topics"),
    ("OffsetFetch", "partitions"),
}
"""Arrays whose order means nothing: Kafka keeps them in hash maps, partly by random ids."""


class Normaliser:
    """The names given so far in one run of a sequence."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._topics: dict[str, str] = {}

    def know_topic(self, name: str, topic_id: str) -> None:
        """Show this topic id by the topic's name."""
        self._topics[f"uuid:{topic_id}"] = f"id of {name}"

    def apply(self, api: str, rendered: Json) -> Json:
        """The same message with names instead of random values, its unordered arrays sorted."""
        return self._walk(api, "", rendered)

    def _walk(self, api: str, field: str, value: Json) -> Json:
        if isinstance(value, dict):
            return {name: self._walk(api, name, inner) for name, inner in value.items()}
        if isinstance(value, list):
            walked = [self._walk(api, field, inner) for inner in value]
            if (api, field) in UNSORTED:
                walked.sort(key=lambda item: json.dumps(item, sort_keys=True))
            return walked
        return self._scalar(api, field, value)

    def _scalar(self, api: str, field: str, value: Any) -> Json:
        if field == "error_message":
            return value if not value else "<some text>"
        if api == "FindCoordinator" and field in WHERE_FIELDS:
            return value if value in (-1, "") else f"<{field}>"
        if not isinstance(value, str):
            return value
        if value.startswith("uuid:"):
            return self._topic_id(value)
        if field in MEMBER_FIELDS:
            return self._member_id(value)
        return value

    def _topic_id(self, value: str) -> str:
        return self._topics.get(value) or (
            value if value == "uuid:0" else self._named("topic id", value)
        )

    def _member_id(self, value: str) -> str:
        match = MEMBER_ID.fullmatch(value)
        return value if match is None else self._named(match["prefix"] or "member", value)

    def _named(self, prefix: str, value: str) -> str:
        if value not in self._names:
            self._counts[prefix] = self._counts.get(prefix, 0) + 1
            self._names[value] = f"{prefix}#{self._counts[prefix]}"
        return self._names[value]
