"""Keys of consumer groups: the root and its blobs, the lease, digests, offsets and configs.

A group's id is one percent-encoded segment of its keys, so that any id is a valid key and all keys
of a group lie together. The root is changed by compare-and-set only. Blobs are immutable; their
names carry the version of the root that their writer had read, so a blob that the root does not
name and whose base is below the root's version can never be named again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from towpath.metadata.keys import ROOT, json_value
from towpath.metadata.keys.json_value import Fields, UnknownValueVersion
from towpath.metadata.keys.numbers import WIDTH, pad, unpad

GROUPS_PREFIX = f"{ROOT}/groups/"
EMPTY_ID_SEGMENT = "%"
"""Stands for the empty group id, which Kafka accepts for offsets; no encoded id looks like it."""
SEGMENT_MAX_BYTES = 3_000
"""The longest encoded id: with a topic and a partition behind it, it still fits a key."""
SEGMENTS_REMEMBERED = 4_096
"""Ids whose encoded form is remembered."""
BLOB_HASH_BYTES = 16

STATE = "state"
LEASE = "lease"
CONFIG = "config"
BLOBS = "blobs"
SEEN = "seen"
OFFSETS = "offsets"


# Keys


@lru_cache(maxsize=SEGMENTS_REMEMBERED)
def segment(group_id: str) -> str:
    """The id as a segment of a key."""
    return quote(group_id, safe="") or EMPTY_ID_SEGMENT


def fits(group_id: str) -> bool:
    """Whether the id is short enough for keys; other ids are refused as invalid."""
    return len(segment(group_id)) <= SEGMENT_MAX_BYTES


def prefix(group_id: str) -> str:
    """Every key of the group."""
    return f"{GROUPS_PREFIX}{segment(group_id)}/"


def state(group_id: str) -> str:
    """The root."""
    return f"{prefix(group_id)}{STATE}"


def lease(group_id: str) -> str:
    """Who runs the group's timers (ephemeral)."""
    return f"{prefix(group_id)}{LEASE}"


def config(group_id: str) -> str:
    """The group's own settings; they outlive the group."""
    return f"{prefix(group_id)}{CONFIG}"


def blobs_prefix(group_id: str) -> str:
    """Every blob of the group."""
    return f"{prefix(group_id)}{BLOBS}/"


def blob(group_id: str, name: str) -> str:
    """One blob by its name."""
    return f"{blobs_prefix(group_id)}{name}"


def seen_prefix(group_id: str) -> str:
    """Every broker's digest of the group."""
    return f"{prefix(group_id)}{SEEN}/"


def seen(group_id: str, broker_id: int) -> str:
    """The members that a broker has seen lately (ephemeral)."""
    return f"{seen_prefix(group_id)}{broker_id:010d}"


def offsets_prefix(group_id: str) -> str:
    """Every committed offset of the group."""
    return f"{prefix(group_id)}{OFFSETS}/"


def topic_offsets_prefix(group_id: str, topic: str) -> str:
    """The group's committed offsets of a topic."""
    return f"{offsets_prefix(group_id)}{topic}/"


def offset(group_id: str, topic: str, partition: int) -> str:
    """The committed offset of one partition. Kafka's topic names hold no `/`."""
    return f"{topic_offsets_prefix(group_id, topic)}{partition:07d}"


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A key taken apart: whose it is, which of its kinds, and what follows (may be empty)."""

    group_id: str
    kind: str
    rest: str


def parse(key: str) -> GroupKey:
    """The parts of any key of a group; ValueError for other keys."""
    parts = key[len(GROUPS_PREFIX) :].split("/", 2)
    if not key.startswith(GROUPS_PREFIX) or len(parts) < 2 or not parts[0]:
        raise ValueError(f"{key!r} is not the key of a group")
    group_id = "" if parts[0] == EMPTY_ID_SEGMENT else unquote(parts[0])
    if segment(group_id) != parts[0]:
        raise ValueError(f"{key!r} does not hold an encoded group id")
    return GroupKey(group_id, parts[1], parts[2] if len(parts) > 2 else "")


def parse_offset(key: str) -> tuple[str, str, int]:
    """`(group_id, topic, partition)` of a committed offset's key."""
    parts = parse(key)
    topic, _, partition = parts.rest.rpartition("/")
    if parts.kind != OFFSETS or not topic or len(partition) < 7 or not partition.isdigit():
        raise ValueError(f"{key!r} is not the key of a committed offset")
    return parts.group_id, topic, int(partition)


def parse_seen(key: str) -> tuple[str, int]:
    """`(group_id, broker_id)` of a digest's key."""
    parts = parse(key)
    if parts.kind != SEEN or len(parts.rest) != 10 or not parts.rest.isdigit():
        raise ValueError(f"{key!r} is not the key of a digest")
    return parts.group_id, int(parts.rest)


# Blobs


def blob_name(base: int, content: bytes) -> str:
    """The name of a blob whose writer had read version `base` of the root."""
    digest = hashlib.sha256(content).digest()[:BLOB_HASH_BYTES]
    return f"{pad(base)}-{digest.hex()}"


def blobs_based_on(group_id: str, base: int) -> str:
    """Where the blobs begin whose writers had read this version of the root, or a later one."""
    return f"{blobs_prefix(group_id)}{pad(base)}"


def blob_base(name: str) -> int:
    """The version of the root that a blob's writer had read."""
    if name[WIDTH : WIDTH + 1] != "-" or len(name) != WIDTH + 1 + 2 * BLOB_HASH_BYTES:
        raise ValueError(f"{name!r} is not the name of a blob")
    return unpad(name[:WIDTH])


# Values


@dataclass(frozen=True, slots=True)
class GroupRoot:
    """The stored root.

    `writer` tells one write from all others, so that a broker whose answer was lost recognises its
    own. `blobs` names every blob of the group; `inline` holds small contents that would not be
    worth one. `state_name` and `protocol_type` are what a listing shows. `fields` are the kind's.
    """

    kind: str
    writer: str
    state_name: str = ""
    protocol_type: str = ""
    blobs: tuple[str, ...] = ()
    inline: tuple[bytes, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def encode(self) -> bytes:
        return json_value.encode(
            1,
            {
                "kind": self.kind,
                "writer": self.writer,
                "state": self.state_name,
                "protocolType": self.protocol_type,
                "blobs": list(self.blobs),
                "inline": [base64.b64encode(content).decode() for content in self.inline],
                "group": dict(self.fields),
            },
        )

    @classmethod
    def decode(cls, value: bytes) -> GroupRoot:
        fields = json_value.decode(value, 1, "group")
        try:
            inline = tuple(base64.b64decode(text, validate=True) for text in fields["inline"])
            return cls(
                fields["kind"],
                fields["writer"],
                fields["state"],
                fields["protocolType"],
                tuple(fields["blobs"]),
                inline,
                Fields(fields["group"]),
            )
        except (binascii.Error, TypeError, ValueError) as error:
            raise UnknownValueVersion(f"damaged group value: {value[:80]!r}") from error


@dataclass(frozen=True, slots=True)
class GroupLease:
    """The holder of a group's lease; `epoch` tells apart two runs of one broker."""

    broker_id: int
    epoch: int

    def encode(self) -> bytes:
        return json_value.encode(1, {"brokerId": self.broker_id, "epoch": self.epoch})

    @classmethod
    def decode(cls, value: bytes) -> GroupLease:
        fields = json_value.decode(value, 1, "group lease")
        return cls(fields["brokerId"], fields["epoch"])


@dataclass(frozen=True, slots=True)
class SeenDigest:
    """Which members a broker has seen, and how long before it wrote this."""

    ages_ms: Mapping[str, int] = field(hash=False)

    def encode(self) -> bytes:
        return json_value.encode(1, {"members": dict(self.ages_ms)})

    @classmethod
    def decode(cls, value: bytes) -> SeenDigest:
        return cls(dict(json_value.decode(value, 1, "digest of members")["members"]))


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """A group's own settings, as given by clients, under Kafka's names."""

    config: Mapping[str, str] = field(hash=False)

    def encode(self) -> bytes:
        return json_value.encode(1, {"config": dict(self.config)})

    @classmethod
    def decode(cls, value: bytes) -> GroupConfig:
        return cls(dict(json_value.decode(value, 1, "group config")["config"]))


DEAD = "dead"
"""The kind of a root whose group is deleted, while its other keys are being removed."""
