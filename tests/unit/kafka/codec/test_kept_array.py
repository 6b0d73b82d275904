"""Arrays that are encoded once: the same bytes as ever, in every version."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from towpath.kafka.codec.codec import encode
from towpath.kafka.codec.kept_array import MAY_BE_KEPT, KeptArray
from towpath.kafka.codec.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

MANY = 200
"""More than a length of one byte tells."""


def partitions(count: int, leader: int = 1) -> list[MetadataResponsePartition]:
    return [
        MetadataResponsePartition(
            partition_index=number, leader_id=leader, replica_nodes=[leader, 7], isr_nodes=[leader]
        )
        for number in range(count)
    ]


def response(*topics: Sequence[MetadataResponsePartition]) -> MetadataResponse:
    """Something before the arrays, between them and behind them."""
    made = MetadataResponse(cluster_id="c", controller_id=3)
    made.topics = [
        MetadataResponseTopic(name=f"t{number}", partitions=list_of)  # type: ignore[arg-type]
        for number, list_of in enumerate(topics)
    ]
    return made


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("count", [0, 1, MANY])
def test_kept_arrays_are_written_like_any_other(version: int, count: int) -> None:
    plain = encode(response(partitions(count), partitions(2)), version)
    kept = KeptArray(partitions(count))
    for _ in range(2):
        assert encode(response(kept, partitions(2)), version) == plain
        assert encode(response(partitions(count), KeptArray(partitions(2))), version) == plain


def test_each_version_is_kept_by_itself_and_written_once() -> None:
    kept = KeptArray(partitions(MANY))
    before = {version: encode(response(kept), version) for version in (0, 8, 13)}
    assert set(kept.encoded) == {0, 8, 13}
    # Nobody may do this; it shows that the elements are not looked at again.
    kept[0].leader_id = 99
    assert {version: encode(response(kept), version) for version in (0, 8, 13)} == before


def test_names_of_structs_are_right() -> None:
    assert {MetadataResponsePartition.__name__} == MAY_BE_KEPT
