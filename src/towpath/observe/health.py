"""Whether a broker is ready: its parts are probed, under a time-out, at most once a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from towpath.runtime import Clock

PROBE_TIMEOUT_MS = 2_000
"""A part that does not answer within this is not ready."""

CACHE_MS = 1_000
"""How long a result is reused: probing must not become a load of its own."""

ERROR_MAX_CHARS = 300

Probe = Callable[[], Awaitable[None]]
"""Raises when the part does not work."""


@dataclass(frozen=True, slots=True)
class PartHealth:
    """One probed part. `error` is None when it works."""

    error: str | None
    elapsed_ms: int

    def as_json(self) -> dict[str, object]:
        """The part as the readiness answer shows it."""
        if self.error is None:
            return {"ok": True, "elapsed_ms": self.elapsed_ms}
        return {"ok": False, "elapsed_ms": self.elapsed_ms, "error": self.error}


@dataclass(frozen=True, slots=True)
class Readiness:
    """The result of one round of probes."""

    parts: Mapping[str, PartHealth]

    @property
    def ready(self) -> bool:
        """True when every part works."""
        return all(part.error is None for part in self.parts.values())


class Health:
    """Probes a broker's parts. Callers that come while a round runs share its result."""

    def __init__(
        self,
        probes: Mapping[str, Probe],
        clock: Clock,
        *,
        timeout_ms: int = PROBE_TIMEOUT_MS,
        cache_ms: int = CACHE_MS,
    ) -> None:
        self._probes = dict(probes)
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._cache_ms = cache_ms
        self._round: asyncio.Task[Readiness] | None = None
        self._last: Readiness | None = None
        self._last_at_ms = 0

    async def check(self) -> Readiness:
        """The present readiness, at most `cache_ms` old."""
        fresh = self._clock.monotonic_ms() - self._last_at_ms < self._cache_ms
        if self._last is not None and fresh:
            return self._last
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._probe_all())
        # A caller that gives up must not cancel the round for the others.
        return await asyncio.shield(self._round)

    async def _probe_all(self) -> Readiness:
        results = await asyncio.gather(*(self._probe(probe) for probe in self._probes.values()))
        readiness = Readiness(dict(zip(self._probes, results, strict=True)))
        self._last, self._last_at_ms = readiness, self._clock.monotonic_ms()
        return readiness

    async def _probe(self, probe: Probe) -> PartHealth:
        started_ms = self._clock.monotonic_ms()
        error: str | None = None
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await probe()
        except TimeoutError:
            error = f"no answer within {self._timeout_ms} ms"
        except Exception as failure:  # noqa: BLE001  (a probe may fail in any way; it is reported)
            error = (str(failure) or type(failure).__name__)[:ERROR_MAX_CHARS]
        return PartHealth(error, self._clock.monotonic_ms() - started_ms)
