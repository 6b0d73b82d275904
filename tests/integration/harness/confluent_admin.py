"""confluent-kafka's names of administration. The library types some of them and re-exports none, so
that they are untyped here, in one place."""

from __future__ import annotations

from typing import Any

import confluent_kafka.admin

_admin: Any = confluent_kafka.admin

AdminClient = _admin.AdminClient
AlterConfigOpType = _admin.AlterConfigOpType
ConfigEntry = _admin.ConfigEntry
ConfigResource = _admin.ConfigResource
ConfigSource = _admin.ConfigSource
NewPartitions = _admin.NewPartitions
NewTopic = _admin.NewTopic
OffsetSpec = _admin.OffsetSpec
ResourceType = _admin.ResourceType
