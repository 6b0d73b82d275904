"""What the `groups` commands ask of a cluster: groups, members, committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from towpath.cli import kafka_request
from towpath.cli.client import REQUEST_TIMEOUT_SECONDS, explained, result
from towpath.cli.errors import CliError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from towpath.cli.offsets import TopicPartition

T = TypeVar("T")

ASKED_AT_ONCE = 100
"""Requests of one kind that wait for their answers together."""
LIST_GROUPS_VERSION = 4
"""The first that tells states."""
OFFSET_DELETE_VERSION = 0

DEAD = "Dead"
EMPTY = "Empty"
UNKNOWN = "Unknown"
STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": DEAD,
    "EMPTY": EMPTY,
}
"""Kafka's names of the states that the client library knows."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group and the partitions that it has."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The broker that serves a group."""

    broker_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Group:
    """A group as its coordinator describes it. One that does not exist is Dead."""

    name: str
    kind: str
    state: str
    assignor: str
    coordinator: Coordinator
    members: tuple[Member, ...]

    @property
    def is_active(self) -> bool:
        """Whether it has members, so that nobody else may commit for it."""
        return self.state not in (EMPTY, DEAD)


def names(client: AdminClient) -> list[str]:
    """Every consumer group, by name."""
    with explained("cannot list groups"):
        found = result(
            client.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_SECONDS),
            "cannot list groups",
        )
    for error in found.errors or []:
        raise CliError(f"cannot list groups: {error}")
    return sorted(group.group_id for group in found.valid or [])


def describe(client: AdminClient, wanted: Sequence[str]) -> dict[str, Group]:
    """The groups by name. CliError if one cannot be described."""
    described: dict[str, Group] = {}
    for some in chunks(wanted, ASKED_AT_ONCE):
        with explained("cannot describe groups"):
            futures = client.describe_consumer_groups(some, request_timeout=REQUEST_TIMEOUT_SECONDS)
        for name, future in futures.items():
            described[name] = _group(result(future, f"group {name}"))
    return described


def existing(client: AdminClient, name: str) -> Group:
    """One group; CliError if there is none."""
    group = describe(client, [name])[name]
    if group.state == DEAD:
        raise CliError(f"there is no group {name}")
    return group


def _group(found: Any) -> Group:
    node = found.coordinator
    group = Group(
        name=found.group_id,
        kind=found.type.name.lower(),
        state=STATES.get(found.state.name, UNKNOWN),
        assignor=found.partition_assignor or "",
        coordinator=Coordinator(node.id, node.host, node.port),
        members=tuple(_member(member) for member in found.members),
    )
    return group if group.state != UNKNOWN else _with_exact_state(group)


def _member(found: Any) -> Member:
    assigned = found.assignment.topic_partitions if found.assignment is not None else []
    return Member(
        member_id=found.member_id,
        client_id=found.client_id,
        host=found.host.removeprefix("/"),
        instance_id=found.group_instance_id,
        partitions=tuple(sorted((each.topic, each.partition) for each in assigned)),
    )


def _with_exact_state(group: Group) -> Group:
    """The group with the state that its coordinator lists: the client library does not know those
    of groups with server-side assignment (Assigning, Reconciling)."""
    from towpath.kafka.codec.messages.list_groups import ListGroupsRequest, ListGroupsResponse

    address = (group.coordinator.host, group.coordinator.port)
    try:
        answer = kafka_request.ask(
            address, ListGroupsRequest(), LIST_GROUPS_VERSION, ListGroupsResponse
        )
    except kafka_request.RequestFailed:
        return group
    states = {listed.group_id: listed.group_state for listed in answer.groups}
    return replace(group, state=states.get(group.name, UNKNOWN))


# Offsets


def committed(client: AdminClient, wanted: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """The committed offsets of each group."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    found: dict[str, dict[TopicPartition, int]] = {}
    for some in chunks(wanted, ASKED_AT_ONCE):
        futures: dict[str, Any] = {}
        for name in some:
            with explained(f"group {name}"):
                # The library takes one group at a time.
                futures |= client.list_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(name)], request_timeout=REQUEST_TIMEOUT_SECONDS
                )
        for name, future in futures.items():
            listed = result(future, f"group {name}").topic_partitions
            found[name] = {
                (each.topic, each.partition): each.offset
                for each in listed
                if each.error is None and each.offset >= 0
            }
    return found


def commit(client: AdminClient, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Write the offsets as those of the group. CliError names every partition that was refused."""
    from confluent_kafka import ConsumerGroupTopicPartitions
    from confluent_kafka import TopicPartition as KafkaPartition

    wanted = [KafkaPartition(topic, number, at) for (topic, number), at in offsets.items()]
    with explained(f"cannot reset group {name}"):
        futures = client.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name, wanted)], request_timeout=REQUEST_TIMEOUT_SECONDS
        )
    answers = result(futures[name], f"cannot reset group {name}").topic_partitions
    refused = [
        f"{each.topic} partition {each.partition}: {each.error.str()}"
        for each in answers
        if each.error is not None
    ]
    if refused:
        raise CliError(f"cannot reset group {name}: {'; '.join(refused)}")


def remove(group: Group, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
    """Remove the group's offsets of these partitions; why it was refused, for each that was."""
    from confluent_kafka import KafkaError

    from towpath.kafka.codec.messages.offset_delete import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
        OffsetDeleteRequestTopic,
        OffsetDeleteResponse,
    )

    by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, number in partitions:
        asked = OffsetDeleteRequestPartition(partition_index=number)
        by_topic.setdefault(topic, []).append(asked)
    request = OffsetDeleteRequest(
        group_id=group.name,
        topics=[
            OffsetDeleteRequestTopic(name=topic, partitions=numbers)
            for topic, numbers in by_topic.items()
        ],
    )
    address = (group.coordinator.host, group.coordinator.port)
    try:
        answer = kafka_request.ask(address, request, OFFSET_DELETE_VERSION, OffsetDeleteResponse)
    except kafka_request.RequestFailed as error:
        raise CliError(f"cannot delete offsets of group {group.name}: {error}") from error
    if answer.error_code:
        reason = KafkaError(answer.error_code).str()
        raise CliError(f"cannot delete offsets of group {group.name}: {reason}")
    return {
        (topic.name, each.partition_index): KafkaError(each.error_code).str()
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code
    }


def chunks(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """The items in lists of at most so many."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some
