"""The settings that a group has of its own, which administrators change while it runs.

They are one key beside the group's other keys: a group need not exist to have them, and they stay
when it is deleted. Brokers learn of a change by their watch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from towpath.errors import ConcurrentChange, InvalidConfig
from towpath.groups.listing import group_ids
from towpath.groups.settings import (
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    CONSUMER_SESSION_TIMEOUT_MS,
    GROUP_CONFIGS,
    INT32_MAX,
    GroupSettings,
)
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys.groups import GroupConfig
from towpath.metadata.store import ABSENT, MetadataStore, VersionConflict

ATTEMPTS = 20
"""Lost races on one group's settings before a change gives up with ConcurrentChange."""

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")


class GroupConfigs:
    """Reads and changes the settings of groups."""

    def __init__(self, store: MetadataStore, settings: GroupSettings) -> None:
        self._store = store
        self._settings = settings

    async def read(self, group_id: str) -> Mapping[str, str]:
        """What the group has set."""
        row = await self._store.get(keys.config(group_id))
        return {} if row is None else GroupConfig.decode(row.value).config

    async def group_ids(self) -> list[str]:
        """Every group that has set something."""
        return [group_id async for group_id in group_ids(self._store) if await self.read(group_id)]

    async def change(
        self,
        group_id: str,
        news: Mapping[str, str | None],
        *,
        replace: bool = False,
        validate_only: bool = False,
    ) -> None:
        """Set what is new (None removes it); with `replace` everything else is removed. Raises
        InvalidConfig, and then nothing is changed."""
        key = keys.config(group_id)
        for _ in range(ATTEMPTS):
            row = await self._store.get(key)
            old = {} if row is None else dict(GroupConfig.decode(row.value).config)
            merged = {**({} if replace else old), **news}
            config = {name: value for name, value in merged.items() if value is not None}
            validate(config, self._settings)
            if validate_only or config == old:
                return
            try:
                if config:
                    expect = ABSENT if row is None else row.version
                    await self._store.put(key, GroupConfig(config).encode(), expect=expect)
                elif row is not None:
                    await self._store.delete(key, expect=row.version)
            except VersionConflict:
                continue
            return
        raise ConcurrentChange(f"the settings of group '{group_id}' are being changed; try again")


def validate(config: Mapping[str, str], settings: GroupSettings) -> None:
    """Refuse what Kafka refuses, with its words."""
    for name in config:
        if name not in GROUP_CONFIGS:
            raise InvalidConfig(f"Unknown group config name: {name}")
    numbers = {name: _number(name, value) for name, value in config.items()}
    heartbeat_ms = numbers.get(
        CONSUMER_HEARTBEAT_INTERVAL_MS, settings.consumer_heartbeat_interval_ms
    )
    session_ms = numbers.get(CONSUMER_SESSION_TIMEOUT_MS, settings.consumer_session_timeout_ms)
    _check_range(
        CONSUMER_HEARTBEAT_INTERVAL_MS,
        heartbeat_ms,
        settings.consumer_min_heartbeat_interval_ms,
        settings.consumer_max_heartbeat_interval_ms,
    )
    _check_range(
        CONSUMER_SESSION_TIMEOUT_MS,
        session_ms,
        settings.consumer_min_session_timeout_ms,
        settings.consumer_max_session_timeout_ms,
    )
    if session_ms <= heartbeat_ms:
        raise InvalidConfig(
            f"{CONSUMER_SESSION_TIMEOUT_MS} must be greater than {CONSUMER_HEARTBEAT_INTERVAL_MS}"
        )


def _number(name: str, value: str) -> int:
    text = value.strip()
    if not _INTEGER.match(text) or abs(int(text)) > INT32_MAX:
        raise _invalid(name, value, "Not a number of type INT")
    if int(text) < 1:
        raise _invalid(name, text, "Value must be at least 1")
    return int(text)


def _invalid(name: str, value: str, why: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {value} for configuration {name}: {why}")


def _check_range(name: str, value: int, least: int, most: int) -> None:
    kind, _, rest = name.partition(".")
    if value < least:
        raise InvalidConfig(f"{name} must be greater than or equal to group.{kind}.min.{rest}")
    if value > most:
        raise InvalidConfig(f"{name} must be less than or equal to group.{kind}.max.{rest}")
