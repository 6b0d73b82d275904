"""How the members and targets of a group are stored, so that the root stays small.

Members are spread over buckets by a hash of their ids. Each bucket is one content for what members
are, one for what they have, and one for what they shall have; so a heartbeat that changes one
member of a thousand writes a few kilobytes, and a value never grows with the group.
"""

from __future__ import annotations

import json
import operator
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from towpath.groups.consumer.member import Member, MemberState
from towpath.groups.consumer.partitions import Partitions, in_order

BUCKET_MEMBERS = 32
"""Members per bucket on average, at most."""

Targets = Mapping[str, Partitions]


def bucket_count(members: int) -> int:
    """How many buckets a group of this size has: a power of two, so that it seldom changes."""
    count = 1
    while members > count * BUCKET_MEMBERS:
        count *= 2
    return count


def bucket_of(member_id: str, buckets: int) -> int:
    """A member's bucket."""
    return zlib.crc32(member_id.encode("utf-8", "surrogatepass")) % buckets


def in_buckets(members: Iterable[Member], buckets: int) -> list[list[Member]]:
    """The members of each bucket, in their order."""
    found: list[list[Member]] = [[] for _ in range(buckets)]
    for member in members:
        found[bucket_of(member.member_id, buckets)].append(member)
    return found


def encode_subscriptions(members: list[Member]) -> bytes:
    """What the members of a bucket are and want. Equal lists of topics are stored once."""
    lists: dict[frozenset[str], int] = {}
    rows = [
        [
            member.place,
            member.member_id,
            member.instance_id,
            member.rack_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.server_assignor,
            member.topic_regex,
            lists.setdefault(member.topic_names, len(lists)),
        ]
        for member in members
    ]
    return _encode({"topics": [sorted(names) for names in lists], "members": rows})


def encode_current(members: list[Member]) -> bytes:
    """What the members of a bucket have."""
    return _encode(
        {
            member.member_id: [
                member.epoch,
                member.previous_epoch,
                member.state.value,
                _runs_by_topic(member.assigned),
                _runs_by_topic(member.revoking),
            ]
            for member in members
        }
    )


def encode_targets(members: list[Member], targets: Targets) -> bytes:
    """What the members of a bucket shall have; who shall have nothing is left out."""
    return _encode(
        {
            member.member_id: _runs_by_topic(targets[member.member_id])
            for member in members
            if targets.get(member.member_id)
        }
    )


def decode_members(subscriptions: bytes, current: bytes) -> list[Member]:
    """The members of a bucket, in no promised order."""
    fields, has = json.loads(subscriptions), json.loads(current)
    lists = [frozenset(names) for names in fields["topics"]]
    return [_decode_member(row, lists, has[row[1]]) for row in fields["members"]]


def decode_targets(targets: bytes) -> dict[str, Partitions]:
    """What each member of a bucket shall have."""
    return {member_id: _partitions(runs) for member_id, runs in json.loads(targets).items()}


def encode_regexes(regexes: Mapping[str, frozenset[str]]) -> bytes:
    """The topics that each regular expression stands for."""
    return _encode({regex: sorted(names) for regex, names in regexes.items()})


def decode_regexes(content: bytes) -> dict[str, frozenset[str]]:
    """The inverse."""
    return {regex: frozenset(names) for regex, names in json.loads(content).items()}


def _decode_member(row: list[Any], lists: list[frozenset[str]], has: list[Any]) -> Member:
    epoch, previous_epoch, state, assigned, revoking = has
    return Member(
        place=row[0],
        member_id=row[1],
        instance_id=row[2],
        rack_id=row[3],
        client_id=row[4],
        client_host=row[5],
        rebalance_timeout_ms=row[6],
        server_assignor=row[7],
        topic_regex=row[8],
        topic_names=lists[row[9]],
        epoch=epoch,
        previous_epoch=previous_epoch,
        state=MemberState(state),
        assigned=_partitions(assigned),
        revoking=_partitions(revoking),
    )


def _runs_by_topic(partitions: Partitions) -> dict[str, str]:
    return {topic_id.hex: runs(numbers) for topic_id, numbers in in_order(partitions)}


def _partitions(fields: Mapping[str, str]) -> Partitions:
    return {uuid.UUID(hex=topic_id): numbers_of(text) for topic_id, text in fields.items()}


def runs(ascending: list[int]) -> str:
    """Ascending numbers as text: `0-5,7`."""
    found: list[str] = []
    start = 0
    for i in range(1, len(ascending) + 1):
        if i == len(ascending) or ascending[i] != ascending[i - 1] + 1:
            first, last = ascending[start], ascending[i - 1]
            found.append(f"{first}-{last}" if last > first else str(first))
            start = i
    return ",".join(found)


def numbers_of(text: str) -> frozenset[int]:
    """The inverse."""
    numbers: set[int] = set()
    for run in text.split(","):
        first, _, last = run.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def _encode(fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()


class BucketCache:
    """Encoded buckets of the last state that was packed, so that a change encodes only its own.

    It is shared by the states that follow from one another; each use compares the very members.
    """

    def __init__(self) -> None:
        self._encoded: dict[tuple[str, int], tuple[list[object], bytes]] = {}

    def encode(
        self, kind: str, number: int, parts: list[object], encode: Callable[[], bytes]
    ) -> bytes:
        """The content of a bucket made of `parts`; it is encoded again if one is another object."""
        known, content = self._encoded.get((kind, number), ([], b""))
        same = len(known) == len(parts) and all(map(operator.is_, known, parts))
        if same and content:
            return content
        content = encode()
        self._encoded[kind, number] = (parts, content)
        return content
