"""Where this broker answers otherwise than Apache Kafka on purpose, and why.

Every entry must occur; whatever is not listed here must be equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.integration.groups_golden.comparing import Found
from tests.integration.groups_golden.rendering import Json


@dataclass(frozen=True)
class Difference:
    """One decided difference of one sequence. `path` may have `*` for anything."""

    sequence: str
    request: str
    path: str
    kafka: Json
    here: Json
    reason: str

    def covers(self, sequence: str, found: Found) -> bool:
        """Whether this is the difference that was found."""
        pattern = self.path.replace("[", "[[]")
        return (
            sequence == self.sequence
            and found.request.split()[0] == self.request
            and fnmatchcase(found.path, pattern)
            and (found.recorded, found.played) == (self.kafka, self.here)
        )


MIXED = (
    "Members of both protocols in one group are deferred (R-KGRP-05): the classic protocol is "
    "refused while a group has members of the consumer protocol."
)
ANSWERED = "A request that nobody waits for any more is answered, so that its connection goes on."
MONOTONIC = (
    "The epoch of a group that changes its protocol goes on from where it was: offsets are written "
    "with it, and a late commit of an older one is refused."
)
NO_SUCH_MEMBER = (
    "Kafka fails inside when no member but an epoch is named; nobody is no member here."
)
NO_SUCH_OPERATION = "Kafka fails inside at an unknown operation; here the request is refused."

JOINS_CONSUMERS = "classic_consumer_joins_a_consumer_group"
JOINS_AFTER_PENDING = "pending_classic_group_becomes_consumer_group"
TO_CONSUMER = "empty_classic_group_becomes_consumer_group"
TO_CLASSIC = "empty_consumer_group_becomes_classic_group"
REFUSED = "INCONSISTENT_GROUP_PROTOCOL"

DIFFERENCES: tuple[Difference, ...] = (
    Difference("join_again_while_preparing", "JoinGroup", "waits", True, False, ANSWERED),
    Difference("leave_of_one_that_waits_to_sync", "SyncGroup", "waits", True, False, ANSWERED),
    Difference(
        JOINS_CONSUMERS, "JoinGroup", "answer.error_code", "MEMBER_ID_REQUIRED", REFUSED, MIXED
    ),
    Difference(JOINS_CONSUMERS, "JoinGroup", "answer.member_id", "member#1", "", MIXED),
    Difference(JOINS_AFTER_PENDING, "JoinGroup", "answer.error_code", "NONE", REFUSED, MIXED),
    Difference(JOINS_AFTER_PENDING, "JoinGroup", "answer.generation_id", 2, -1, MIXED),
    Difference(JOINS_AFTER_PENDING, "JoinGroup", "answer.protocol_type", "consumer", None, MIXED),
    Difference(JOINS_AFTER_PENDING, "JoinGroup", "answer.protocol_name", "range", None, MIXED),
    Difference(JOINS_AFTER_PENDING, "JoinGroup", "answer.member_id", "a#1", "", MIXED),
    Difference(TO_CONSUMER, "ConsumerGroupHeartbeat", "answer.member_epoch", 1, 3, MONOTONIC),
    Difference(TO_CONSUMER, "ConsumerGroupDescribe", "answer.groups[0].*_epoch", 1, 3, MONOTONIC),
    Difference(TO_CLASSIC, "JoinGroup", "answer.generation_id", 1, 3, MONOTONIC),
    Difference(TO_CLASSIC, "SyncGroup", "fields.generation_id", 1, 3, MONOTONIC),
    Difference(
        "fetch_by_consumers",
        "OffsetFetch",
        "answer.groups[0].error_code",
        "UNKNOWN_SERVER_ERROR",
        "UNKNOWN_MEMBER_ID",
        NO_SUCH_MEMBER,
    ),
    Difference(
        "group_config_invalid",
        "IncrementalAlterConfigs",
        "answer.responses[0].error_code",
        "UNKNOWN_SERVER_ERROR",
        "INVALID_REQUEST",
        NO_SUCH_OPERATION,
    ),
    Difference(
        "group_config_invalid",
        "IncrementalAlterConfigs",
        "answer.responses[0].error_message",
        None,
        "<some text>",
        NO_SUCH_OPERATION,
    ),
)


def undecided(sequence: str, found: list[Found]) -> list[Found]:
    """What no entry explains."""
    return [one for one in found if not any(d.covers(sequence, one) for d in DIFFERENCES)]


def missing(sequence: str, found: list[Found]) -> list[Difference]:
    """Entries for this sequence that did not occur, and have to go."""
    return [
        difference
        for difference in DIFFERENCES
        if sequence == difference.sequence
        and not any(difference.covers(sequence, one) for one in found)
    ]
