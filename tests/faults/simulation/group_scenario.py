"""What a seed with consumer groups is about: its groups, their members, and what befalls them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.faults.simulation.chance import Chance

from towpath.groups import adoption, coordinator, packing
from towpath.groups.settings import CLASSIC, CONSUMER, GroupSettings

if TYPE_CHECKING:
    from tests.faults.simulation.scenario import Scenario

SHARE = 0.4
"""How many of the seeds without tables have groups."""
LOAD_S = 16.0
"""How long members come and go, about."""
IDLE_MS = 4_000
TIDY_INTERVAL_MS = 1_500
SWEEP_INTERVAL_MS = 10_000
"""The product's own pauses, shortened to the time that a run takes."""
MEMBER_DISASTERS = (
    "member-crash",
    "member-crash",
    "member-pause",
    "member-pause",
    "member-move",
    "member-leave",
    "member-leave",
    "all-members-crash",
    "all-members-leave",
)
BROKER_DISASTERS = (
    "holder-crash",
    "holder-pause",
    "holder-pause",
    "holder-cut",
    "holder-session",
    "broker-crash",
    "broker-restart",
    "broker-pause",
    "lost-feed",
    "member-partition",
    "crash-at-write",
    "pause-at-write",
    "pause-at-write",
)


@dataclass(frozen=True, slots=True)
class GroupScenario:
    """Everything about groups that is drawn before a run starts."""

    kinds: tuple[str, ...]
    """The protocol of each group."""
    seats: tuple[int, ...]
    """How many members each group has, at most."""
    static_share: float
    session_ms: int
    """The session time-out of every member."""
    heartbeat_ms: int
    rebalance_ms: int
    """The rebalance time-out of every member."""
    initial_delay_ms: int
    lazy_share: float
    """How often a member takes its time to join again or to give up partitions."""
    inline_bytes: int
    """What is larger than this becomes a blob."""
    deletes_groups: bool
    asks_for_coordinator: float
    """How often a member asks where its coordinator is, when it connects."""
    disasters: tuple[str, ...]
    """Kinds of events that befall members and brokers; see `group_nemesis.py`."""
    disaster_count: int

    def settings(self) -> GroupSettings:
        """The groups' settings of every broker."""
        return GroupSettings(
            min_session_timeout_ms=1,
            initial_rebalance_delay_ms=self.initial_delay_ms,
            offsets_retention_check_interval_ms=3_000,
            consumer_session_timeout_ms=self.session_ms,
            consumer_min_session_timeout_ms=self.session_ms,
            consumer_max_session_timeout_ms=self.session_ms,
            consumer_heartbeat_interval_ms=self.heartbeat_ms,
            consumer_min_heartbeat_interval_ms=self.heartbeat_ms,
            consumer_max_heartbeat_interval_ms=self.heartbeat_ms,
        )


def draw_groups(seed: int) -> GroupScenario | None:
    """The groups' part of a seed's scenario; None if it has none."""
    chance = Chance(seed, "groups")
    if not chance.happens(SHARE):
        return None
    kinds = chance.pick((CLASSIC,), (CONSUMER,), (CLASSIC, CONSUMER))
    session_ms = chance.pick(4_000, 6_000)
    return GroupScenario(
        kinds=kinds,
        seats=tuple(chance.pick(1, 2, 3, 3, 4) for _ in kinds),
        static_share=chance.pick(0.0, 0.3, 1.0),
        session_ms=session_ms,
        heartbeat_ms=session_ms // chance.pick(4, 6),
        rebalance_ms=chance.pick(2_000, 9_000),
        initial_delay_ms=chance.pick(0, 0, 400),
        lazy_share=chance.pick(0.0, 0.2, 0.5),
        inline_bytes=chance.pick(0, 150, 1_024),
        deletes_groups=chance.happens(0.3),
        asks_for_coordinator=chance.pick(0.0, 0.5, 1.0),
        disasters=(
            *chance.some_of(MEMBER_DISASTERS, 0.5),
            *chance.some_of(BROKER_DISASTERS, 0.5),
        ),
        disaster_count=chance.pick(0, 4, 7, 10),
    )


def for_groups(scenario: Scenario) -> Scenario:
    """Brokers that members can go to, and less to do besides groups."""
    if scenario.groups is None:
        return scenario
    chance = Chance(scenario.seed, "for-groups")
    return replace(
        scenario,
        brokers=chance.pick(1, 2, 2, 3),
        topic_partitions=tuple(chance.pick(1, 2, 4) for _ in scenario.topic_partitions),
        plain_producers=1,
        idempotent_producers=chance.pick(0, 1),
        consumers=0,
        gc_interval_ms=3_000,
        retention_interval_ms=4_000,
        deletes_topics=chance.happens(0.15),
    )


@contextmanager
def at_the_pace_of(scenario: GroupScenario | None) -> Iterator[None]:
    """Within this, the product's pauses and sizes fit a run."""
    with ExitStack() as stack:
        if scenario is not None:
            for module, name, value in (
                (packing, "INLINE_MAX_BYTES", scenario.inline_bytes),
                (coordinator, "IDLE_MS", IDLE_MS),
                (coordinator, "TIDY_INTERVAL_MS", TIDY_INTERVAL_MS),
                (adoption, "SWEEP_INTERVAL_MS", SWEEP_INTERVAL_MS),
            ):
                stack.enter_context(patch.object(module, name, value))
        yield
