"""What Kafka checks of a new topic or of new partitions, in its order and words.

Replicas are accepted and then ignored, but a wrong assignment is refused as Kafka refuses it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from towpath.errors import (
    InvalidPartitionCount,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
)
from towpath.topics.effective import MAX_TOPIC_PARTITIONS
from towpath.topics.interface import NewTopic


def new_partition_count(new: NewTopic, default_count: int, live_brokers: Collection[int]) -> int:
    """How many partitions the topic gets; raises TopicError if what it asks for is wrong."""
    if new.assignments:
        return _assigned_count(new, live_brokers)
    if new.replication_factor < -1 or new.replication_factor == 0:
        raise InvalidReplicationFactor(
            "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if new.partitions < -1 or new.partitions == 0:
        raise InvalidPartitionCount(
            "Number of partitions was set to an invalid non-positive value."
        )
    count = default_count if new.partitions == -1 else new.partitions
    _check_limit(count)
    return count


def _assigned_count(new: NewTopic, live_brokers: Collection[int]) -> int:
    replica_count: int | None = None
    for replicas in new.assignments.values():
        _check_replicas(replicas, replica_count, live_brokers)
        replica_count = len(replicas)
    if any(partition not in new.assignments for partition in range(len(new.assignments))):
        raise InvalidReplicaAssignment(
            "partitions should be a consecutive 0-based integer sequence"
        )
    _check_limit(len(new.assignments))
    return len(new.assignments)


def growth(
    name: str,
    present: int,
    total: int,
    assignments: Sequence[Sequence[int]] | None,
    live_brokers: Collection[int],
) -> None:
    """Raise TopicError unless a topic of `present` partitions may grow to `total`."""
    if total == present:
        raise InvalidPartitionCount(f"Topic already has {present} partition(s).")
    if total < present:
        raise InvalidPartitionCount(
            f"The topic {name} currently has {present} partition(s); "
            f"{total} would not be an increase."
        )
    _check_limit(total)
    if assignments is None:
        return
    if len(assignments) != total - present:
        raise InvalidReplicaAssignment(
            f"Attempted to add {total - present} additional partition(s), "
            f"but only {len(assignments)} assignment(s) were specified."
        )
    # The topic's own replica lists are not kept, so the new ones must only agree with each other.
    replica_count: int | None = None
    for replicas in assignments:
        _check_replicas(replicas, replica_count, live_brokers)
        replica_count = len(replicas)


def _check_limit(count: int) -> None:
    if count > MAX_TOPIC_PARTITIONS:
        raise InvalidPartitionCount(
            f"Number of partitions {count} is larger than the limit of {MAX_TOPIC_PARTITIONS}."
        )


def _check_replicas(
    replicas: Sequence[int], replica_count: int | None, live_brokers: Collection[int]
) -> None:
    start = "The manual partition assignment includes"
    if not replicas:
        raise InvalidReplicaAssignment(f"{start} an empty replica list.")
    previous: int | None = None
    for broker in sorted(replicas):
        if broker not in live_brokers:
            raise InvalidReplicaAssignment(
                f"{start} broker {broker}, but no such broker is registered."
            )
        if broker == previous:
            raise InvalidReplicaAssignment(f"{start} the broker {broker} more than once.")
        previous = broker
    if replica_count is not None and len(replicas) != replica_count:
        raise InvalidReplicaAssignment(
            f"{start} a partition with {len(replicas)} replica(s), but this is not consistent "
            f"with previous partitions, which have {replica_count} replica(s)."
        )
