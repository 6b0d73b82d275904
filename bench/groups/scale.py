"""How much each part of the groups' benchmark does: a full run, or a quick one."""

from __future__ import annotations

from dataclasses import asdict, dataclass

MB = 1_000_000


@dataclass(frozen=True)
class Scale:
    """Repetitions, members and durations, the same for every system."""

    first_warmups: int
    """First assignments of each system and protocol that do not count."""

    first_repetitions: int
    trials: int
    """Groups of three that live at the same time."""

    broker_warmup_s: float
    """How long each broker commits before anything is measured: a JVM compiles while it works."""

    load_warmup_s: float
    load_s: float
    """How long commits, and heartbeats, are counted."""

    idle_s: float
    """How long the CPU time with a thousand members is measured."""

    disk_free_bytes_min: int

    def to_json(self) -> dict[str, float]:
        """For `groups.json`."""
        return asdict(self)


FULL = Scale(
    first_warmups=10,
    first_repetitions=15,
    trials=12,
    broker_warmup_s=4.0,
    load_warmup_s=1.5,
    load_s=5.0,
    idle_s=15.0,
    disk_free_bytes_min=2_000 * MB,
)

QUICK = Scale(
    first_warmups=3,
    first_repetitions=5,
    trials=6,
    broker_warmup_s=1.0,
    load_warmup_s=1.0,
    load_s=2.0,
    idle_s=10.0,
    disk_free_bytes_min=1_000 * MB,
)
