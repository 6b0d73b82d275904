"""What a soak found: numbers, problems, and both as lines or as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from towpath.soak.plan import HANDLES_GROWTH_MAX, RSS_GROWTH_MAX_BYTES
from towpath.soak.process_size import ProcessSize

MIB = 1 << 20


@dataclass(slots=True)
class BrokerSizes:
    """One broker before the load, at its largest, and after the load."""

    before: ProcessSize
    peak: ProcessSize
    after: ProcessSize

    def problems(self, number: int) -> list[str]:
        """What did not return to about where it was."""
        found = []
        growth_bytes = self.after.rss_bytes - self.before.rss_bytes
        if growth_bytes > RSS_GROWTH_MAX_BYTES:
            found.append(
                f"broker {number}: memory grew by {growth_bytes // MIB} MiB and stayed "
                f"(limit {RSS_GROWTH_MAX_BYTES // MIB})"
            )
        handles = self.after.handles - self.before.handles
        if handles > HANDLES_GROWTH_MAX:
            found.append(f"broker {number}: {handles} files stayed open")
        return found


@dataclass(slots=True)
class Report:
    """The end of a soak."""

    seconds: float = 0.0
    """How long the load lasted."""
    acknowledged: int = 0
    unacknowledged: int = 0
    records_per_second: float = 0.0
    kills: int = 0
    producer_longest_stall_s: float = 0.0
    consumer_longest_stall_s: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)
    """What the clients were told in the background, by name."""
    brokers: list[BrokerSizes] = field(default_factory=list)
    data_bytes: int = 0
    data_dir: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether everything adds up."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """As JSON sees it."""
        values = asdict(self)
        values["brokers"] = [
            {
                name: {"rss_bytes": size.rss_bytes, "handles": size.handles}
                for name, size in (("before", b.before), ("peak", b.peak), ("after", b.after))
            }
            for b in self.brokers
        ]
        return {"good": self.is_good, **values}

    def lines(self) -> list[str]:
        """For people."""
        shown = [
            f"records    {self.acknowledged:,} acknowledged, {self.unacknowledged:,} not, "
            f"{self.records_per_second:,.0f}/s over {self.seconds:.0f} s",
            f"kills      {self.kills}",
            f"stalls     producer {self.producer_longest_stall_s:.2f} s, "
            f"consumer {self.consumer_longest_stall_s:.2f} s at most",
            f"errors     {_counts(self.errors)}",
        ]
        for number, broker in enumerate(self.brokers, 1):
            rss = [size.rss_bytes // MIB for size in (broker.before, broker.peak, broker.after)]
            shown.append(
                f"broker {number}   memory {rss[0]} MiB before, {rss[1]} peak, {rss[2]} after; "
                f"files {broker.before.handles} before, {broker.after.handles} after"
            )
        shown.append(f"data       {self.data_bytes / MIB:,.0f} MiB in {self.data_dir}")
        shown += [f"PROBLEM    {problem}" for problem in self.problems]
        shown.append("everything adds up" if self.is_good else "NOT everything adds up")
        return shown


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
