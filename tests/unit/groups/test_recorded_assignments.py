"""The assignors give every member what Apache Kafka 4.1.2 gave it in the recorded cases."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from towpath.groups.consumer.assignors import ASSIGNORS, GroupSpec, MemberSpec
from towpath.groups.consumer.partitions import Partitions, partitions_of

RECORDED = Path(__file__).parent / "kafka_assignments" / "recorded.json"
CASES = json.loads(RECORDED.read_text())


def _partitions(fields: dict[str, list[int]]) -> Partitions:
    return partitions_of((uuid.UUID(topic), numbers) for topic, numbers in fields.items())


def _group(asked: dict[str, Any]) -> GroupSpec:
    return GroupSpec(
        members={
            member_id: MemberSpec(
                topic_ids=frozenset(map(uuid.UUID, member["topics"])),
                assigned=_partitions(member["assigned"]),
                instance_id=member["instance"],
            )
            for member_id, member in asked["members"].items()
        },
        partition_counts={uuid.UUID(topic): count for topic, count in asked["topics"].items()},
        is_homogeneous=len({tuple(member["topics"]) for member in asked["members"].values()}) == 1,
    )


@pytest.mark.parametrize("number", range(len(CASES)))
def test_same_as_kafka(number: int) -> None:
    asked, answer = CASES[number]["asked"], CASES[number]["answer"]
    made = ASSIGNORS[asked["assignor"]](_group(asked))
    wanted = {member_id: _partitions(fields) for member_id, fields in answer.items()}
    assert {member_id: made.get(member_id, {}) for member_id in wanted} == wanted
