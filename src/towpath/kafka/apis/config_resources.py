"""The resources that have settings, and the checks that both ways of altering them share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

from towpath.kafka.apis.admin_support import Refused, duplicates
from towpath.kafka.apis.group_support import check_group_id
from towpath.kafka.errors import ErrorCode
from towpath.topics.names import validate


class ResourceType(IntEnum):
    """Kafka's numbers of resource types."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class NamedConfig(Protocol):
    """One setting in a request."""

    name: str
    value: str | None


class Resource(Protocol):
    """One resource in a request."""

    resource_type: int
    resource_name: str


def invalid_request(message: str) -> Refused:
    """A refusal with INVALID_REQUEST."""
    return Refused(ErrorCode.INVALID_REQUEST, message)


Identity = tuple[int, str]


def repeated_resources(resources: Sequence[Resource]) -> set[Identity]:
    """The resources that the request names more than once."""
    return duplicates((resource.resource_type, resource.resource_name) for resource in resources)


def check_once(resource: Resource, repeated: set[Identity]) -> None:
    """Refuse a resource that the request names more than once."""
    if (resource.resource_type, resource.resource_name) in repeated:
        raise invalid_request("Each resource must appear at most once.")


def check_configs(configs: Sequence[NamedConfig], may_be_null: Sequence[NamedConfig]) -> None:
    """Refuse settings given twice, and null values except of those in `may_be_null`."""
    if duplicates(config.name for config in configs):
        raise invalid_request("Error due to duplicate config keys")
    nulls = [
        config.name for config in configs if config.value is None and config not in may_be_null
    ]
    if nulls:
        raise invalid_request(f"Null value not supported for : {', '.join(nulls)}")


def check_alterable(resource: Resource, own_broker_id: int, *, loggers_known: bool) -> None:
    """Refuse everything but a well-formed topic or group: only those change at run time."""
    kind, name = resource.resource_type, resource.resource_name
    if kind == ResourceType.TOPIC:
        if not name:
            raise invalid_request("Default topic resources are not allowed.")
        validate(name)
    elif kind == ResourceType.BROKER:
        if name:
            check_own_id(name, own_broker_id)
        raise invalid_request(
            "Broker settings cannot be changed at run time; "
            "change the broker's configuration and restart it."
        )
    elif kind == ResourceType.BROKER_LOGGER and loggers_known:
        raise invalid_request("Log levels cannot be changed at run time.")
    elif kind == ResourceType.CLIENT_METRICS:
        raise invalid_request("Client metrics subscriptions are not supported.")
    elif kind == ResourceType.GROUP:
        if not name:
            raise invalid_request("Default group resources are not allowed.")
        if check_group_id(name) is not ErrorCode.NONE:
            raise Refused(ErrorCode.INVALID_GROUP_ID, "The group id is too long.")
    else:
        raise invalid_request(f"Unknown resource type {kind}")


def check_own_id(name: str, own_broker_id: int) -> None:
    """Refuse a change of another broker."""
    if parse_id(name) is None:
        raise invalid_request(f"Node id must be an integer, but it is: {name}")
    if parse_id(name) != own_broker_id:
        raise invalid_request(
            f"Unexpected broker id, expected {own_broker_id}, but received {name}"
        )


def parse_id(name: str) -> int | None:
    """The broker id that a resource's name spells, if it does."""
    digits = name.removeprefix("-")
    return int(name) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else None
