"""Requests about the configs of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.integration.groups_golden.scene import Peer, Scene

from towpath.kafka.codec.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from towpath.kafka.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

GROUP = 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def alter(
    peer: Peer,
    group: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
    version: int = 1,
) -> Any:
    """IncrementalAlterConfigs of a group: name, operation and value of each change."""
    return peer.ask(_altering(group, changes, validate_only), version)


def set_group_config(scene: Scene, values: Mapping[str, str]) -> None:
    """Set configs of the sequence's group, unrecorded, and wait until they are in force."""
    changes = [(name, SET, value) for name, value in values.items()]
    answer = scene.look(_altering(scene.group, changes, False), 1)
    assert answer.responses[0].error_code == 0, answer
    wanted = set(values.items())
    scene.look_until(
        _describing(scene.group, None),
        4,
        lambda told: wanted <= {(c.name, c.value) for c in told.results[0].configs},
        "the configs",
    )


def describe_config(
    peer: Peer,
    group: str,
    names: Sequence[str] | None = None,
    *,
    synonyms: bool = False,
    version: int = 4,
) -> Any:
    """DescribeConfigs of a group."""
    request = _describing(group, names)
    request.include_synonyms = synonyms
    return peer.ask(request, version)


def _altering(
    group: str, changes: Sequence[tuple[str, int, str | None]], validate_only: bool
) -> IncrementalAlterConfigsRequest:
    resource = AlterConfigsResource(
        resource_type=GROUP,
        resource_name=group,
        configs=[
            AlterableConfig(name=name, config_operation=operation, value=value)
            for name, operation, value in changes
        ],
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def _describing(group: str, names: Sequence[str] | None) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=GROUP,
        resource_name=group,
        configuration_keys=None if names is None else list(names),
    )
    return DescribeConfigsRequest(resources=[resource])
