"""How often and how badly things go wrong; set to `CALM` when the faults stop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreRates:
    """Faults of the calls to one kind of store, as probabilities per call."""

    refused: float = 0.0
    """The call fails before it has an effect."""
    lost: float = 0.0
    """The call has its effect, but its answer is lost."""
    dropped: float = 0.0
    """The call has no effect, and nobody tells: the outcome is unknown."""
    late: float = 0.0
    """The caller gets an error, and the effect comes afterwards."""
    slow: float = 0.0
    """The call takes up to `slow_s`."""
    slow_s: float = 1.0
    delay_s: float = 0.004
    """The usual time each way, at most."""


@dataclass(frozen=True, slots=True)
class WatchRates:
    """Faults of a broker's change feed."""

    delay_s: float = 0.005
    slow: float = 0.0
    slow_s: float = 1.0
    lost: float = 0.0
    """A delivery is lost, and a resync comes instead, up to `slow_s` later."""


@dataclass(frozen=True, slots=True)
class NetworkRates:
    """Faults of the connections between clients and brokers, as probabilities per write."""

    delay_s: float = 0.003
    split: float = 0.0
    """The bytes arrive in several pieces."""
    trickle: float = 0.0
    """The bytes arrive one at a time (the first 64 of them)."""
    stall: float = 0.0
    """Nothing moves for up to `stall_s`."""
    stall_s: float = 3.0
    reset: float = 0.0
    """The connection breaks after a part of the bytes has arrived."""
    window_bytes: int = 1 << 20
    """Unread answers at which the transport asks the broker to pause."""


@dataclass(frozen=True, slots=True)
class RunnerRates:
    """Faults of the workers that run a compactor's jobs."""

    unavailable: float = 0.0
    """A run fails as a whole, perhaps after some of its jobs were done."""
    failed: float = 0.0
    """A job fails."""
    lost: float = 0.0
    """An attempt at a job is lost after it wrote its files; another one follows."""
    zombie: float = 0.0
    """An attempt is given up, and writes its files long after another one has ended."""
    slow: float = 0.0
    """A job takes up to `slow_s`."""
    slow_s: float = 1.0
    delay_s: float = 0.05
    """The usual time of a job, at most."""


@dataclass(slots=True)
class Rates:
    """What holds now; every part of the simulation looks here for each call."""

    metadata: StoreRates
    """Of a broker's calls to the metadata store."""
    tasks: StoreRates
    """Of a compactor's calls to it, of which each round makes many."""
    objects: StoreRates
    watch: WatchRates
    network: NetworkRates
    catalog: StoreRates
    runner: RunnerRates

    def calm(self) -> None:
        """Let the faults stop. The network's window stays: it is no fault."""
        self.metadata = self.tasks = StoreRates()
        self.objects = StoreRates()
        self.watch = WatchRates()
        self.network = NetworkRates(window_bytes=self.network.window_bytes)
        self.catalog = StoreRates(delay_s=self.catalog.delay_s)
        self.runner = RunnerRates()
