"""Committed offsets: the value of each, and the mark of commits to groups without members."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from uuid import UUID

from towpath.metadata.keys import groups, json_value
from towpath.metadata.keys.json_value import UnknownValueVersion

VERSION = 1
TOPIC_IDS_REMEMBERED = 4_096
"""Topic ids whose text is remembered."""
NO_EPOCH = -1
"""The generation or leader epoch of a commit that has none."""


MARKED = b'{"version":1}'
"""The value of a mark; its version alone tells something."""


def key_under(topic_prefix: str, partition: int) -> str:
    """The key of a partition's offset, under the group's prefix of the topic."""
    return f"{topic_prefix}{partition:07d}"


def mark(group_id: str) -> str:
    """Put by every commit to a group without members, so that whoever wants to remove the group for
    having no offsets can tell whether any came since it looked. It sorts before all topics."""
    return f"{groups.offsets_prefix(group_id)}!"


def is_mark(key: str) -> bool:
    """Whether a key under a group's prefix of offsets is its mark."""
    return key.endswith("/!")


@lru_cache(maxsize=TOPIC_IDS_REMEMBERED)
def _text(topic_id: UUID) -> str:
    return str(topic_id)


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """One committed offset.

    `generation` is the generation or the member epoch that wrote it. The topic's id tells offsets
    of a deleted topic from those of another one that has got its name. `expire_timestamp_ms` is
    set where the client asked for a retention of its own.
    """

    offset: int
    metadata: str
    commit_timestamp_ms: int
    topic_id: UUID
    generation: int = NO_EPOCH
    leader_epoch: int = NO_EPOCH
    expire_timestamp_ms: int | None = None

    def encode(self) -> bytes:
        """JSON as of all other values, but made by hand: a broker does this for every commit."""
        expires = "null" if self.expire_timestamp_ms is None else self.expire_timestamp_ms
        return (
            f'{{"version":{VERSION},"offset":{self.offset},"leaderEpoch":{self.leader_epoch},'
            f'"metadata":{encode_basestring_ascii(self.metadata)},'
            f'"commitTimestampMs":{self.commit_timestamp_ms},"expireTimestampMs":{expires},'
            f'"topicId":"{_text(self.topic_id)}","generation":{self.generation}}}'
        ).encode()

    @classmethod
    def decode(cls, value: bytes) -> CommittedOffset:
        """The inverse of `encode`; raises UnknownValueVersion."""
        fields = json_value.decode(value, VERSION, "committed offset")
        try:
            topic_id = UUID(fields["topicId"])
        except (ValueError, AttributeError, TypeError) as error:
            raise UnknownValueVersion(f"damaged committed offset value: {value[:80]!r}") from error
        return cls(
            offset=fields["offset"],
            metadata=fields["metadata"],
            commit_timestamp_ms=fields["commitTimestampMs"],
            topic_id=topic_id,
            generation=fields["generation"],
            leader_epoch=fields["leaderEpoch"],
            expire_timestamp_ms=fields["expireTimestampMs"],
        )
