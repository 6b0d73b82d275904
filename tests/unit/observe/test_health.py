"""Readiness: real probes, time-outs, and a cache that callers share."""

from __future__ import annotations

import asyncio

from towpath.observe.health import Health


class HandClock:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.at_ms = 1_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


async def works() -> None:
    """A part that is fine."""


async def test_a_failing_part_is_named() -> None:
    async def fails() -> None:
        raise OSError("disk is gone")

    readiness = await Health({"metadata": works, "objects": fails}, HandClock()).check()
    assert not readiness.ready
    assert readiness.parts["metadata"].error is None
    assert readiness.parts["objects"].as_json() == {
        "ok": False,
        "elapsed_ms": 0,
        "error": "disk is gone",
    }


async def test_a_silent_part_is_not_ready() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    readiness = await Health({"objects": hangs}, HandClock(), timeout_ms=10).check()
    assert readiness.parts["objects"].error == "no answer within 10 ms"


async def test_results_are_reused_for_a_second() -> None:
    clock, calls = HandClock(), 0

    async def counts() -> None:
        nonlocal calls
        calls += 1

    health = Health({"objects": counts}, clock)
    await health.check()
    clock.at_ms += 999
    await health.check()
    assert calls == 1
    clock.at_ms += 1
    await health.check()
    assert calls == 2


async def test_callers_share_a_round_and_one_may_give_up() -> None:
    entered, release, calls = asyncio.Event(), asyncio.Event(), 0

    async def waits() -> None:
        nonlocal calls
        calls += 1
        entered.set()
        await release.wait()

    health = Health({"objects": waits}, HandClock())
    first, second = (asyncio.create_task(health.check()) for _ in range(2))
    await entered.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    release.set()
    assert (await second).ready
    assert first.cancelled()
    assert calls == 1
